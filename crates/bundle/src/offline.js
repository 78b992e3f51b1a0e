// Keeps every file of this folder in the browser, so that the lesson opens without a network. The builder fills in the
// names and a digest of their contents.
const files = [/* FILES */];
const ours = `unmask ${self.registration.scope} `;
const kept = ours + "/* DIGEST */";

// A newer script waits until no page of the older one is open, because room, pages and trainers must be of one build.
self.addEventListener("install", event => {
  const requests = files.map(name => new Request(name, { cache: "no-cache" }));
  event.waitUntil(caches.open(kept).then(cache => cache.addAll(requests)));
});

self.addEventListener("activate", event => {
  const old = name => name.startsWith(ours) && name !== kept;
  const removed = caches.keys().then(names => Promise.all(names.filter(old).map(name => caches.delete(name))));
  event.waitUntil(removed.then(() => self.clients.claim()));
});

self.addEventListener("fetch", event => {
  const found = caches.open(kept).then(cache => cache.match(event.request, { ignoreSearch: true }));
  event.respondWith(found.then(file => file ?? fetch(event.request)));
});
