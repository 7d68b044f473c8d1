// Icons: strokes on a field of 24 by 24. They are decoration; the button's text or label names the action.

import { html } from "../vendor/preact-htm.module.js";

const PATHS = {
  chat: "M4 5.5h16v10.5H11l-4.5 3.5V16H4z",
  talk: "M4 10v4M8 6.5v11M12 4v16M16 8v8M20 10.5v3",
  listen: "M6 4h8l4 4v12H6zM14 4v4h4M9 12h6M9 15.5h6",
  speak: "M4 9.5v5h3.5L12 18.5v-13L7.5 9.5zM15.5 9a4 4 0 0 1 0 6M18 6.5a8 8 0 0 1 0 11",
  models: "M12 3.5 20 8v8l-8 4.5L4 16V8zM4 8l8 4.5L20 8M12 12.5v8",
  memory: "M4 19.5h16M4 15l4.5-5 4 3L20 5.5",
  settings: "M4 7h9M17 7h3M4 17h3M11 17h9M15 4.8v4.4M9 14.8v4.4",
  send: "M12 19.5v-15M5.5 11 12 4.5 18.5 11",
  stop: "M7 7h10v10H7z",
  microphone: "M12 3.5a2.8 2.8 0 0 1 2.8 2.8v5a2.8 2.8 0 0 1-5.6 0v-5A2.8 2.8 0 0 1 12 3.5zM6 11.5a6 6 0 0 0 12 0M12 17.5v3",
  picture: "M4 5h16v14H4zM4 16l4.5-5 4 4.5 2.5-2.5 5 5M15 9.2v.1",
  camera: "M4 8h3.5L9 5.5h6L16.5 8H20v11H4zM12 10a3.2 3.2 0 1 0 0 6.4 3.2 3.2 0 0 0 0-6.4",
  copy: "M9 9h11v11H9zM15 9V4H4v11h5",
  check: "M5 12.5l4.5 4.5L19 7",
  again: "M19 12a7 7 0 1 1-2.2-5.1M19 4v4h-4",
  edit: "M4.5 19.5l1-4L16 5l3 3L8.5 18.5zM13.5 7.5l3 3",
  close: "M6 6l12 12M18 6L6 18",
  add: "M12 5v14M5 12h14",
  list: "M4 6.5h16M4 12h16M4 17.5h10",
  remove: "M5 7h14M10 7V4.5h4V7M7 7l1 12.5h8L17 7",
  download: "M12 4v11M7 10.5l5 5 5-5M5 19.5h14",
  file: "M6 3.5h8l4 4v13H6zM14 3.5v4h4",
  down: "M6 9.5l6 6 6-6",
};

export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false"><path d=${PATHS[name]} /></svg>`;
}

/** A button that shows an icon alone. `label`: its name for screen readers and as a tooltip. */
export function IconButton({ icon, label, class: kind = "", ...rest }) {
  return html`<button type="button" class=${`icon-button ${kind}`} aria-label=${label} title=${label} ...${rest}>
    <${Icon} name=${icon} />
  </button>`;
}
