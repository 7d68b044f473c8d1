// Plays 16-bit samples as they come, one piece after the other.

export class Player {
  /** `onIdle`: called when all that came has been played, and at a stop. */
  constructor(rate = 24000, onIdle = () => {}) {
    this.rate = rate;
    this.onIdle = onIdle;
    this.context = null;
    this.nodes = new Set();
    this.rest = new Uint8Array(0);
    this.reset();
  }

  reset() {
    this.next = 0; // time behind the last sample
    this.queued = 0; // seconds that came
    this.ended = false;
  }

  /** Bytes of samples, little-endian; a sample may be cut in two. */
  push(bytes) {
    const all = new Uint8Array(this.rest.length + bytes.length);
    all.set(this.rest);
    all.set(bytes, this.rest.length);
    this.rest = all.slice(all.length & ~1);
    const count = all.length >> 1;
    if (!count) return;
    this.context ??= new AudioContext();
    this.context.resume();
    const buffer = this.context.createBuffer(1, count, this.rate);
    const samples = buffer.getChannelData(0);
    const view = new DataView(all.buffer);
    for (let at = 0; at < count; at += 1) samples[at] = view.getInt16(2 * at, true) / 32768;
    this.schedule(buffer);
  }

  schedule(buffer) {
    const node = this.context.createBufferSource();
    node.buffer = buffer;
    node.connect(this.context.destination);
    const at = Math.max(this.next, this.context.currentTime + 0.05);
    this.next = at + buffer.duration;
    this.queued += buffer.duration;
    this.nodes.add(node);
    node.onended = () => {
      this.nodes.delete(node);
      this.settle();
    };
    node.start(at);
  }

  /** Nothing more comes for now. */
  end() {
    this.ended = true;
    this.settle();
  }

  settle() {
    if (!this.ended || this.nodes.size) return;
    this.reset();
    this.onIdle();
  }

  get playing() {
    return this.nodes.size > 0;
  }

  /** Falls silent at once. Returns the milliseconds that were heard of all that came since the silence before. */
  stop() {
    const waiting = this.context ? Math.max(0, this.next - this.context.currentTime) : 0;
    const heard = Math.max(0, this.queued - waiting);
    for (const node of this.nodes) {
      node.onended = null;
      node.stop();
    }
    this.nodes.clear();
    this.rest = new Uint8Array(0);
    this.reset();
    this.onIdle();
    return Math.round(1000 * heard);
  }

  close() {
    this.stop();
    this.context?.close();
    this.context = null;
  }
}
