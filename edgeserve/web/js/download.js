// A link that saves what the page holds.

import { html, useEffect, useState } from "../vendor/preact-htm.module.js";
import { Icon } from "./icons.js";

/** `blob`: the content; `name`: of the file. */
export function Download({ blob, name, children }) {
  const [url, setUrl] = useState(null);
  useEffect(() => {
    const made = URL.createObjectURL(blob);
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [blob]);
  return url && html`<a class="button" href=${url} download=${name}><${Icon} name="download" />${children}</a>`;
}
