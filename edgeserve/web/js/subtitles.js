// Segments of a transcript as files: SubRip, WebVTT and plain text.

function time(seconds, mark) {
  const milliseconds = Math.round(1000 * seconds);
  const pad = (value, digits) => String(value).padStart(digits, "0");
  const clock = [milliseconds / 3_600_000, (milliseconds / 60_000) % 60, (milliseconds / 1000) % 60];
  return `${clock.map((one) => pad(Math.floor(one), 2)).join(":")}${mark}${pad(milliseconds % 1000, 3)}`;
}

function cue(segment, mark) {
  const text = segment.text.trim().replace(/\n{2,}/g, "\n").replaceAll("-->", "→"); // it would end the cue
  return `${time(segment.start, mark)} --> ${time(segment.end, mark)}\n${text}\n`;
}

export const forms = {
  srt: { type: "application/x-subrip", write: ({ segments }) => segments.map((one, at) => `${at + 1}\n${cue(one, ",")}`).join("\n") },
  vtt: { type: "text/vtt", write: ({ segments }) => `WEBVTT\n\n${segments.map((one) => cue(one, ".")).join("\n")}` },
  txt: { type: "text/plain", write: ({ text }) => `${text.trim()}\n` },
};
