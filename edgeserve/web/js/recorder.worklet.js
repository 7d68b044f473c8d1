// Hands the microphone's samples to the page at the wanted rate, 50 ms at a time.

class Recorder extends AudioWorkletProcessor {
  constructor({ processorOptions }) {
    super();
    this.step = sampleRate / processorOptions.rate; // samples of the device for one of ours
    this.piece = new Float32Array(Math.round(processorOptions.rate / 20));
    this.filled = 0;
    this.sum = 0;
    this.count = 0;
    this.at = 0;
  }

  process([[samples]]) {
    if (!samples) return true;
    for (const sample of samples) {
      this.sum += sample;
      this.count += 1;
      this.at += 1;
      if (this.at < this.step) continue;
      this.at -= this.step;
      this.put(this.sum / this.count); // the mean keeps most of what lies above the new rate out
      this.sum = this.count = 0;
    }
    return true;
  }

  put(sample) {
    this.piece[this.filled] = sample;
    this.filled += 1;
    if (this.filled < this.piece.length) return;
    this.port.postMessage(this.piece.slice());
    this.filled = 0;
  }
}

registerProcessor("recorder", Recorder);
