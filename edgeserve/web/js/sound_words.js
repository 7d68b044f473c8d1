// Words of the panels with sound.

export const words = { en: {}, de: {} };
