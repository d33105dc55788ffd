// A recording to make with the microphone, to choose or to drop. What is read is a WAV file in base64, made here: one
// channel, few samples a second, 8 bits each by the µ-law, so that it is small enough to send.

import { element } from "../viewer/dom.js";
import { dropped } from "./dropped.js";

const BIAS = 33; // of the µ-law on 14 bits
const CLIP = 8158;

export function sound({ id, change, signal, accept, rate, seconds }) {
  let encoded = "";
  let recorder = null;
  let timer = null;
  const input = element("input", { id, type: "file", accept: `${accept},audio/*` });
  const record = element("button", { type: "button", class: "plain", on: { click: () => (recorder ? recorder.stop() : listen()) } }, "Record");
  const play = element("button", { type: "button", class: "plain", hidden: true, on: { click: replay } }, "Play");
  const clear = element("button", { type: "button", class: "plain", hidden: true, on: { click: () => { set(""); change(0); } } }, "Remove");
  const status = element("p", { class: "about", role: "status" });
  const node = element("div", { class: "photo" }, element("div", { class: "row" }, record, input), element("div", { class: "row" }, play, clear), status);

  dropped(node, input, take);
  signal?.addEventListener("abort", () => recorder?.stop());

  async function listen() {
    let stream;
    try {
      stream = await navigator.mediaDevices.getUserMedia({ audio: true });
    } catch {
      status.textContent = "The microphone cannot be used here; choose a file.";
      return;
    }
    const parts = [];
    recorder = new MediaRecorder(stream);
    recorder.addEventListener("dataavailable", (event) => parts.push(event.data));
    recorder.addEventListener("stop", () => {
      clearTimeout(timer);
      for (const track of stream.getTracks()) track.stop();
      recorder = null;
      record.textContent = "Record";
      take(new File(parts, "recording"));
    });
    recorder.start();
    timer = setTimeout(() => recorder?.stop(), 1000 * seconds);
    record.textContent = "Stop";
    status.textContent = `Listening, at most ${seconds} seconds …`;
  }

  async function take(file) {
    if (!file) return;
    try {
      const samples = await decoded(await file.arrayBuffer());
      const most = Math.floor(rate * seconds);
      set(base64(wav(samples.subarray(0, most))));
      if (samples.length > most) status.textContent = `Only the first ${seconds} of ${(samples.length / rate).toFixed(0)} seconds are sent.`;
      change(0);
    } catch {
      set("");
      status.textContent = `${file.name || "This"} is not sound that can be read here.`;
    }
  }

  // One channel at `rate`; the browser reads and resamples.
  async function decoded(data) {
    const context = new OfflineAudioContext(1, 1, rate);
    const whole = await context.decodeAudioData(data);
    const mixed = new Float32Array(whole.length);
    for (let channel = 0; channel < whole.numberOfChannels; channel++) {
      whole.getChannelData(channel).forEach((value, i) => { mixed[i] += value / whole.numberOfChannels; });
    }
    return mixed;
  }

  function wav(samples) {
    const bytes = new Uint8Array(58 + samples.length);
    const head = new DataView(bytes.buffer);
    const text = (at, word) => [...word].forEach((letter, i) => head.setUint8(at + i, letter.charCodeAt(0)));
    text(0, "RIFF");
    head.setUint32(4, 50 + samples.length, true);
    text(8, "WAVEfmt ");
    head.setUint32(16, 18, true);
    head.setUint16(20, 7, true); // µ-law
    head.setUint16(22, 1, true);
    head.setUint32(24, rate, true);
    head.setUint32(28, rate, true);
    head.setUint16(32, 1, true);
    head.setUint16(34, 8, true);
    text(38, "fact");
    head.setUint32(42, 4, true);
    head.setUint32(46, samples.length, true);
    text(50, "data");
    head.setUint32(54, samples.length, true);
    samples.forEach((value, i) => { bytes[58 + i] = compressed(value); });
    return bytes;
  }

  // Sign, three bits of exponent, four of mantissa, all inverted (ITU-T G.711).
  function compressed(value) {
    const size = Math.min(Math.round(Math.abs(value) * 8192), CLIP) + BIAS;
    const exponent = Math.min(7, Math.max(0, Math.floor(Math.log2(size)) - 5));
    const mantissa = (size >> (exponent + 1)) & 15;
    return ~((value < 0 ? 128 : 0) | (exponent << 4) | mantissa) & 255;
  }

  function base64(bytes) {
    return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  }

  function replay() {
    const bytes = Uint8Array.from(atob(encoded), (letter) => letter.charCodeAt(0));
    const context = new AudioContext();
    const buffer = context.createBuffer(1, Math.max(1, bytes.length - 58), rate);
    const channel = buffer.getChannelData(0);
    bytes.subarray(58).forEach((byte, i) => { channel[i] = expanded(byte); });
    const source = context.createBufferSource();
    source.buffer = buffer;
    source.connect(context.destination);
    source.addEventListener("ended", () => context.close());
    source.start();
  }

  function expanded(byte) {
    const bits = ~byte & 255;
    const size = ((2 * (bits & 15) + BIAS) << ((bits >> 4) & 7)) - BIAS;
    return (bits & 128 ? -size : size) / 8192;
  }

  function set(value) {
    encoded = value ?? "";
    play.hidden = clear.hidden = !encoded;
    status.textContent = encoded ? `${(Math.max(0, (encoded.length * 3) / 4 - 58) / rate).toFixed(1)} seconds` : "";
    if (!encoded) input.value = "";
  }

  return { node, read: () => encoded, set };
}
