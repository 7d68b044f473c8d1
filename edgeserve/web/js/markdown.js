// Markdown of a model as nodes of the document. The text is hostile: nothing in it runs, loads or leads elsewhere
// unasked. Only the tags listed here pass; pictures become links.

import { marked } from "../vendor/marked.esm.js";
import "../vendor/purify.min.js"; // no module: it sets a global

const purify = globalThis.DOMPurify;
const TAGS = (
  "a p br hr strong em del code pre blockquote ul ol li h2 h3 h4 h5 h6 table thead tbody tr th td sup sub kbd"
).split(" ");
const RULES = {
  ALLOWED_TAGS: TAGS,
  ALLOWED_ATTR: ["href", "title", "align", "start"],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};

const PLAIN = /^<\/?(?:br|sub|sup|kbd)\s*\/?>\s*$/i;

/** Other markup of an answer is shown as the model wrote it. */
function escaped(text) {
  const signs = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };
  const shown = text.trimEnd().replace(/[&<>]/g, (one) => signs[one]);
  return text.endsWith("\n") ? `<p>${shown}</p>` : shown;
}

marked.use({
  gfm: true,
  breaks: true,
  renderer: {
    image({ href, text }) {
      return this.link({ href, tokens: [{ type: "text", raw: text, text: text || href }] });
    },
    html: ({ text }) => (PLAIN.test(text) ? text : escaped(text)),
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
  },
});

purify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName !== "A") return;
  if (!node.hasAttribute("href")) return;
  node.setAttribute("target", "_blank");
  node.setAttribute("rel", "noopener noreferrer");
});

/** Headings below the page's own, none of which leaves a level out. */
function nested(tokens) {
  let before = 1;
  for (const token of tokens) {
    if (token.type === "heading") token.depth = before = Math.min(token.depth + 1, before + 1, 6);
  }
  return tokens;
}

/** The nodes of a markup that may stay. */
export function clean(markup) {
  return purify.sanitize(markup, RULES);
}

/** A fragment of safe nodes. */
export function rendered(text) {
  const fragment = clean(marked.parser(nested(marked.lexer(text))));
  for (const block of fragment.querySelectorAll("pre, table")) block.tabIndex = 0; // they scroll: the keyboard must, too
  return fragment;
}

/** The words alone, for reading aloud. Blocks of code are left out. */
export function spoken(text) {
  const fragment = rendered(text);
  for (const block of fragment.querySelectorAll("pre")) block.remove();
  for (const block of fragment.querySelectorAll("p, li, h2, h3, h4, h5, h6, tr")) block.append("\n");
  return fragment.textContent.trim();
}
