// Browsers refuse workers to pages that were opened from the disk. The search then runs in a hidden frame instead.
// Material looks for the name IFrameWorker to see that it does.
window.IFrameWorker = class extends EventTarget {
  constructor(url) {
    super()
    const frame = document.createElement("iframe")
    frame.hidden = true
    document.body.append(frame)
    const inner = frame.contentWindow
    const load = source =>
      new Promise((done, failed) => {
        const script = inner.document.createElement("script")
        script.src = source
        script.onload = done
        script.onerror = failed
        inner.document.body.append(script)
      })
    inner.importScripts = (...sources) => sources.reduce((before, source) => before.then(() => load(source)), Promise.resolve())
    inner.postMessage = data => {
      const event = new MessageEvent("message", { data })
      this.dispatchEvent(event)
      this.onmessage?.(event)
    }
    this.inner = inner
    this.ready = load(new URL(url, document.baseURI).href)
  }

  postMessage(data) {
    this.ready.then(() => {
      const event = new MessageEvent("message", { data })
      this.inner.dispatchEvent(event)
      this.inner.onmessage?.(event)
    })
  }

  terminate() {
    this.inner.frameElement.remove()
  }
}
if (location.protocol === "file:") window.Worker = window.IFrameWorker
