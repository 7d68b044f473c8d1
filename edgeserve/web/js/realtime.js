// A spoken conversation over /v1/realtime: the microphone's sound goes out, the answers' sound comes in.

import { socket } from "./api.js";
import { openMicrophone } from "./microphone.js";
import { Player } from "./player.js";

const RATE = 24000;
const HARMLESS = ["response_cancel_not_active", "input_audio_buffer_commit_empty"];

/** Emits "state" (connecting, listening, hearing, thinking, speaking, ended), "lines", "level" and "error" to `on`. */
export class Conversation {
  constructor(t, settings, on) {
    this.t = t;
    this.settings = settings;
    this.on = on;
    this.lines = []; // {id, role, text, cut}
    this.player = new Player(RATE, () => this.silent());
    this.spoken = null; // id of the item that is played
    this.closeMicrophone = () => {};
    this.over = false;
  }

  /** Raises an Error when the microphone or the server refuses. */
  async start() {
    this.to("connecting");
    const model = this.settings.model ? `?model=${encodeURIComponent(this.settings.model)}` : "";
    this.line = await this.connect(socket(`/v1/realtime${model}`, "realtime"));
    this.line.onmessage = ({ data }) => this.take(JSON.parse(data));
    this.line.onclose = (event) => this.lost(event.reason);
    this.send("session.update", { session: this.session() });
    this.closeMicrophone = await openMicrophone(RATE, this.t, (samples, loudness) => this.hear(samples, loudness));
    if (this.over) this.closeMicrophone();
    else this.to("listening");
  }

  connect(line) {
    return new Promise((resolve, reject) => {
      line.onopen = () => resolve(line);
      line.onerror = line.onclose = () => reject(new Error(this.t("live.refused")));
    });
  }

  session() {
    const { voice, temperature, system } = this.settings;
    const output = voice ? { voice } : {};
    const input = { transcription: {}, turn_detection: { type: "server_vad" } };
    const given = temperature === "" ? {} : { temperature: Number(temperature) };
    return { type: "realtime", instructions: system, audio: { input, output }, ...given };
  }

  send(type, fields) {
    if (this.line?.readyState === WebSocket.OPEN) this.line.send(JSON.stringify({ type, ...fields }));
  }

  hear(samples, loudness) {
    this.on.level(loudness);
    const bytes = new DataView(new ArrayBuffer(2 * samples.length));
    samples.forEach((sample, at) => bytes.setInt16(2 * at, 32767 * Math.max(-1, Math.min(1, sample)), true));
    this.send("input_audio_buffer.append", { audio: base64(new Uint8Array(bytes.buffer)) });
  }

  take(event) {
    switch (event.type) {
      case "input_audio_buffer.speech_started":
        this.interrupt();
        return this.to("hearing");
      case "input_audio_buffer.speech_stopped":
        return this.to("thinking");
      case "conversation.item.added":
        return this.add(event.item);
      case "conversation.item.input_audio_transcription.completed":
        if (!event.transcript.trim() && this.state === "thinking") this.to("listening"); // no words: no answer comes
        return this.write(event.item_id, () => event.transcript.trim());
      case "conversation.item.input_audio_transcription.failed":
        return this.fail(event.error.message);
      case "response.output_audio_transcript.delta":
        return this.write(event.item_id, (before) => before + event.delta);
      case "response.output_audio.delta":
        return this.play(event);
      case "response.done":
        return this.done(event.response);
      case "error":
        return HARMLESS.includes(event.error.code) ? undefined : this.fail(event.error.message);
    }
  }

  play({ item_id: id, delta }) {
    if (this.lines.some((line) => line.id === id && line.cut)) return; // it came behind the interruption
    this.spoken = id;
    this.player.push(bytesOf(delta));
    this.to("speaking");
  }

  /** The user speaks: silence at once, and the server forgets the words that nobody heard. */
  interrupt() {
    if (!this.player.playing) return;
    const id = this.spoken;
    const heard = this.player.stop();
    this.send("conversation.item.truncate", { item_id: id, content_index: 0, audio_end_ms: heard });
    this.change(id, (line) => ({ ...line, cut: true }));
  }

  done({ status, status_details: details }) {
    if (status === "failed") this.fail(details?.error?.message ?? status);
    this.player.end();
    if (!this.player.playing && this.state === "thinking" && status !== "cancelled") this.to("listening");
  }

  silent() {
    this.spoken = null;
    if (this.state === "speaking") this.to("listening");
  }

  add({ id, role }) {
    if (role !== "user" && role !== "assistant") return;
    this.lines = [...this.lines, { id, role, text: "" }];
    this.on.lines(this.lines);
  }

  write(id, text) {
    this.change(id, (line) => ({ ...line, text: text(line.text) }));
  }

  change(id, change) {
    this.lines = this.lines.map((line) => (line.id === id ? change(line) : line));
    this.on.lines(this.lines);
  }

  fail(message) {
    this.on.error(message);
    if (this.state === "thinking") this.to("listening");
  }

  to(state) {
    if (this.over || this.state === state) return;
    this.state = state;
    this.on.state(state);
  }

  lost(reason) {
    if (!this.over) this.on.error(reason || this.t("live.lost"));
    this.stop();
  }

  stop() {
    this.to("ended");
    this.over = true;
    this.closeMicrophone();
    this.player.close();
    this.line?.close();
  }
}

function base64(bytes) {
  return btoa(String.fromCharCode(...bytes));
}

function bytesOf(text) {
  return Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
}
