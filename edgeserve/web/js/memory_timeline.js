// The memory timeline: folded from the events of GET /memory/feed (docs/api/memory.md), and drawn on a canvas.
// Lengths in CSS pixels, times in seconds, sizes in MB.

const SECONDS = 1800;
const EVENTS = 200;
const [RUNG, PRIVATE, MAPPED] = [0, 1, 2];
const [LEFT, RIGHT, TOP] = [58, 10, 22];
const [PLOT, AXIS, STRIP] = [230, 30, 30];
const SPANS = [300, 600, 900, 1800];
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536];
const NEAR = 6;

/** Kinds of happenings that the picture marks, and their colours. */
const MARKED = { step_down: "muted", refusal: "bad", worker_ended: "bad", answer_stopped: "bad" };

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

/** Height of the picture: the plot, its axis, and a strip for each model. */
export function heightOf(history) {
  return TOP + PLOT + AXIS + STRIP * history.ids.length;
}

/** Where things are: `x(time)`, `y(MB)`, `time(x)`, and the ends of the axes. `whole`: as high as the budget. */
export function layout(history, width, whole) {
  const { latest, samples } = history;
  const end = latest?.at ?? 0;
  const span = SPANS.find((one) => one >= end - (samples[0]?.at ?? end)) ?? SPANS.at(-1);
  const start = end - span;
  const used = samples.reduce((most, one) => Math.max(most, inAll(one)), 1);
  const limits = samples.reduce((most, one) => Math.max(most, one.budget_mb, one.available_mb), 1);
  const top = 1.1 * (whole ? Math.max(used, limits) : used);
  const inner = Math.max(1, width - LEFT - RIGHT);
  return {
    start, end, span, top,
    x: (at) => LEFT + ((at - start) / span) * inner,
    y: (size) => TOP + PLOT * (1 - size / top),
    time: (x) => Math.min(end, Math.max(start, start + ((x - LEFT) / inner) * span)),
  };
}

/** The mark next to a place on the picture, if one is near. */
export function markNear(history, place, x) {
  const near = history.marks
    .map((mark) => [Math.abs(place.x(mark.at) - x), mark])
    .filter(([far, mark]) => far <= NEAR && mark.at >= place.start);
  return near.sort(([one], [other]) => one - other)[0]?.[1];
}

/** `words`: `{size(MB), minutes(count), budget, available}`. `cursor`: a time to show, or null. */
export function draw(canvas, history, { place, words, cursor }) {
  const width = canvas.clientWidth;
  const height = heightOf(history);
  const ratio = devicePixelRatio || 1;
  [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
  const style = getComputedStyle(canvas);
  const pen = canvas.getContext("2d");
  // A variable would be read as it is written, with its colours for light and for dark.
  const colour = (name) => {
    canvas.style.color = `var(--${name})`;
    return style.color;
  };
  const picture = { pen, history, place, words, width, right: width - RIGHT, colour };
  pen.scale(ratio, ratio);
  pen.font = `12px ${style.fontFamily}`;
  pen.textBaseline = "middle";
  grid(picture);
  pen.save();
  pen.beginPath();
  pen.rect(LEFT, TOP, picture.right - LEFT, PLOT);
  pen.clip();
  areas(picture);
  lines(picture);
  pen.restore();
  history.ids.forEach((id, row) => strip(picture, id, TOP + PLOT + AXIS + STRIP * row));
  history.marks.filter((mark) => mark.at >= place.start).forEach((mark) => flag(picture, mark));
  if (cursor !== null) vertical(picture, place.x(cursor), "text", []);
}

function grid({ pen, place, words, right, colour }) {
  const step = STEPS.find((one) => place.top / one <= 5.5) ?? STEPS.at(-1);
  pen.lineWidth = 1;
  pen.strokeStyle = colour("line");
  pen.fillStyle = colour("muted");
  pen.textAlign = "right";
  for (let size = 0; size <= place.top; size += step) {
    const y = Math.round(place.y(size)) + 0.5;
    stroke(pen, [[LEFT, y], [right, y]]);
    pen.fillText(words.size(size), LEFT - 8, y);
  }
  const parts = right - LEFT < 420 ? 2 : 5;
  for (let part = 0; part <= parts; part += 1) {
    const x = LEFT + ((right - LEFT) * part) / parts;
    pen.textAlign = part === 0 ? "left" : part === parts ? "right" : "center";
    pen.fillText(words.minutes((place.span * (part - parts)) / parts / 60), x, TOP + PLOT + 14);
  }
}

/** The server, then each model: private, and above it mapped in a lighter shade. */
function areas({ pen, history, place, colour }) {
  const run = history.samples;
  const xs = run.map((one) => place.x(one.at));
  const bottom = run.map(() => 0);
  const layer = (values, name, alpha) => {
    const top = values.map((value, number) => bottom[number] + value);
    pen.beginPath();
    xs.forEach((x, number) => pen.lineTo(x, place.y(top[number])));
    for (let number = xs.length - 1; number >= 0; number -= 1) pen.lineTo(xs[number], place.y(bottom[number]));
    pen.globalAlpha = alpha;
    pen.fillStyle = colour(name);
    pen.fill();
    pen.globalAlpha = 1;
    bottom.splice(0, bottom.length, ...top);
  };
  layer(run.map(ownMemory), "line-strong", 0.7);
  for (const id of history.ids) {
    const held = run.map((one) => sizes(one.models[id]));
    layer(held.map(([own]) => own), history.colour(id), 1);
    layer(held.map(([, mapped]) => mapped), history.colour(id), 0.45);
    }
}

function lines({ pen, history, place, colour }) {
  const line = (column, dashes) => {
    pen.setLineDash(dashes);
    stroke(pen, history.samples.map((one) => [place.x(one.at), place.y(one[column])]));
    pen.setLineDash([]);
  };
  pen.lineWidth = 1.75;
  pen.strokeStyle = colour("text");
  line("budget_mb", []);
  line("available_mb", [5, 4]);
  pen.lineWidth = 1;
}

/** The rungs of a model: a hair where it is cold, half as high and lighter where it is warm, full where it is hot. */
function strip({ pen, history, place, right, colour }, id, top) {
  pen.textAlign = "left";
  pen.fillStyle = colour("text");
  pen.fillText(history.name(id), LEFT, top + 7, right - LEFT);
  const bottom = top + 26;
  pen.strokeStyle = colour("line-strong");
  stroke(pen, [[LEFT, bottom + 0.5], [right, bottom + 0.5]]);
  pen.fillStyle = colour(history.colour(id));
  for (const [rung, since, until] of stays(history.samples, id)) {
    const [from, to] = [since, until].map((at) => place.x(Math.max(place.start, at)));
    const tall = rung === 2 ? 12 : 5;
    pen.globalAlpha = rung === 2 ? 1 : 0.5;
    pen.fillRect(from, bottom - tall, Math.max(1, to - from), tall);
  }
  pen.globalAlpha = 1;
}

/** Stays of a model on a rung above cold: `[rung, since, until]`. */
function stays(samples, id) {
  const found = [];
  let rung = 0;
  for (const { at, models } of samples) {
    const now = rungOf(models[id]);
    if (rung) found.at(-1)[2] = at;
    if (now && now !== rung) found.push([now, at, at]);
    rung = now;
  }
  return found;
}

/** A vertical mark, with a sign at its top for its kind: a triangle down, a cross, a ring. */
function flag(picture, mark) {
  const { pen, place, colour } = picture;
  const forced = mark.kind === "step_down" && mark.reason.startsWith("memory_");
  const name = forced ? "warn" : MARKED[mark.kind];
  const x = place.x(mark.at);
  vertical(picture, x, name, mark.kind === "step_down" ? [2, 3] : []);
  pen.strokeStyle = pen.fillStyle = colour(name);
  pen.lineWidth = 2;
  pen.beginPath();
  if (mark.kind === "step_down") {
    [[x - 5, 7], [x + 5, 7], [x, 15]].forEach(([a, b]) => pen.lineTo(a, b));
    pen.fill();
  } else if (mark.kind === "worker_ended") {
    pen.arc(x, 11, 4, 0, 2 * Math.PI);
    pen.stroke();
  } else {
    stroke(pen, [[x - 4, 7], [x + 4, 15]]);
    stroke(pen, [[x + 4, 7], [x - 4, 15]]);
  }
  pen.lineWidth = 1;
}

function vertical({ pen, colour }, x, name, dashes) {
  pen.strokeStyle = colour(name);
  pen.setLineDash(dashes);
  stroke(pen, [[Math.round(x) + 0.5, TOP - 4], [Math.round(x) + 0.5, TOP + PLOT]]);
  pen.setLineDash([]);
}

function stroke(pen, points) {
  pen.beginPath();
  points.forEach(([x, y]) => pen.lineTo(x, y));
  pen.stroke();
}
