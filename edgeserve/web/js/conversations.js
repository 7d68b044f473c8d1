// Conversations, kept in this browser alone (IndexedDB).
//
// A conversation: {id, title, updated, system, messages}; a message: {role, content, pictures, reasoning, stats, error}.

const NAME = "edgeserve";
const STORE = "conversations";

let opened = null;

function database() {
  opened ??= new Promise((resolve, reject) => {
    const opening = indexedDB.open(NAME, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(STORE, { keyPath: "id" });
    opening.onsuccess = () => resolve(opening.result);
    opening.onerror = () => reject(opening.error);
  });
  return opened;
}

async function run(mode, work) {
  const transaction = (await database()).transaction(STORE, mode);
  const asked = work(transaction.objectStore(STORE));
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve(asked.result);
    transaction.onerror = transaction.onabort = () => reject(transaction.error);
  });
}

const changed = new EventTarget();

export function newConversation(system) {
  return { id: crypto.randomUUID?.() ?? String(Math.random()), title: "", updated: Date.now(), system, messages: [] };
}

/** All conversations, the latest first. */
export async function allConversations() {
  const found = await run("readonly", (store) => store.getAll());
  return found.sort((one, other) => other.updated - one.updated);
}

export function saveConversation(conversation) {
  return run("readwrite", (store) => store.put(conversation));
}

export function removeConversation(id) {
  return run("readwrite", (store) => store.delete(id));
}

export async function clearConversations() {
  await run("readwrite", (store) => store.clear());
  changed.dispatchEvent(new Event("cleared"));
}

/** Returns a function that ends the listening. */
export function whenCleared(listener) {
  changed.addEventListener("cleared", listener);
  return () => changed.removeEventListener("cleared", listener);
}
