// Classic scripts of vendor/, which are no modules: loaded once, when something needs them.

const loading = new Map();

// The page's policy lets no other text become the address of a script.
const policy = globalThis.trustedTypes?.createPolicy("edgeserve", {
  createScriptURL: (url) => {
    if (!url.startsWith(String(new URL("../vendor/", import.meta.url)))) throw new TypeError(`${url} is not of this page`);
    return url;
  },
});

/** The global `name` that `vendor/FILE` sets. */
export function loadScript(file, name) {
  if (!loading.has(file)) loading.set(file, load(file));
  return loading.get(file).then(() => globalThis[name]);
}

function load(file) {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    const url = String(new URL(`../vendor/${file}`, import.meta.url));
    script.src = policy ? policy.createScriptURL(url) : url;
    script.onload = resolve;
    script.onerror = () => {
      loading.delete(file);
      reject(new Error(`${file} could not be loaded`));
    };
    document.head.append(script);
  });
}
