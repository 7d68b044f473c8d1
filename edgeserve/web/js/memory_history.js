// The memory timeline, folded from the events of GET /memory/feed (docs/api/memory.md).

const SECONDS = 1800;
const EVENTS = 200;
const RUNG = 0;
const PRIVATE = 1;
const MAPPED = 2;

/** Kinds of happenings that the picture marks, and their colours. */
export const MARKED = { step_down: "muted", refusal: "bad", worker_ended: "bad", answer_stopped: "bad" };

export class History {
  /** `samples`: `{at, pressure, ..., models}`, the oldest first; `models` by id. `order`: ids as they came. */
  constructor() {
    this.order = [];
    this.#clear({});
  }

  #clear({ sample = [], pressure = [], rungs = [] }) {
    this.columns = sample;
    this.levels = pressure;
    this.rungs = rungs;
    this.samples = [];
    this.events = [];
    this.rows = [];
  }

  feed(event) {
    if (event.type === "start") this.#clear(event);
    else if (event.type === "samples") event.samples.forEach((values) => this.#append(values));
    else if (event.type === "events") this.events = [...this.events, ...event.events].slice(-EVENTS);
    else if (event.type === "models") this.rows = event.models;
  }

  #append(values) {
    const sample = Object.fromEntries(this.columns.map((name, column) => [name, values[column]]));
    let models = this.latest?.models ?? {};
    if (sample.models) models = this.#changed(models, sample.models);
    // The server's clock may have been set: then what seems to come later is the past.
    while (this.latest && this.latest.at >= sample.at) this.samples.pop();
    this.samples.push({ ...sample, models });
    while (this.samples[0].at < sample.at - SECONDS) this.samples.shift();
  }

  #changed(before, changes) {
    const models = { ...before };
    for (const [id, held] of Object.entries(changes)) {
      if (held) models[id] = held;
      else delete models[id];
      if (!this.order.includes(id)) this.order.push(id);
    }
    return models;
  }

  get latest() {
    return this.samples.at(-1);
  }

  /** Ids of the models that any sample has, in the order of their colours. */
  get ids() {
    const seen = new Set();
    let last = null;
    for (const { models } of this.samples) {
      if (models !== last) Object.keys(models).forEach((id) => seen.add(id));
      last = models;
    }
    return this.order.filter((id) => seen.has(id));
  }

  colour(id) {
    return `series-${(this.order.indexOf(id) % 6) + 1}`;
  }

  name(id) {
    return this.rows.find((one) => one.id === id)?.model_name ?? id;
  }

  /** The sample at a time, or the one before it. */
  at(time) {
    let [low, high] = [0, this.samples.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.samples[middle].at <= time) low = middle + 1;
      else high = middle;
    }
    return this.samples[Math.max(0, low - 1)];
  }

  get marks() {
    return this.events.filter((one) => one.kind in MARKED);
  }
}

export function rungOf(held) {
  return held ? held[RUNG] : 0;
}

/** `[private, mapped]` in MB. */
export function sizes(held) {
  return held ? [held[PRIVATE], held[MAPPED]] : [0, 0];
}

/** MB of the server beside its models. */
export function ownMemory(sample) {
  const models = Object.values(sample.models).reduce((sum, held) => sum + held[PRIVATE], 0);
  return Math.max(0, sample.private_mb - models);
}

/** MB of the server and all of its models. */
export function inAll(sample) {
  return Object.values(sample.models).reduce((sum, held) => sum + held[PRIVATE] + held[MAPPED], ownMemory(sample));
}
