/** The `data` of each event of a stream. Leaving the loop early cancels the response, which aborts the request on the server. */
export async function* readServerSentEvents(response: Response): AsyncGenerator<string> {
  if (response.body === null) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffered = '';
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      buffered += value;
      let end: number;
      while ((end = buffered.indexOf('\n\n')) >= 0) {
        const event = buffered.slice(0, end);
        buffered = buffered.slice(end + 2);
        const data = event
          .split('\n')
          .filter((line) => line.startsWith('data:'))
          .map((line) => line.slice(5).trimStart())
          .join('\n');
        if (data !== '') yield data;
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined); // the body may have failed already; its error was thrown by `read`
  }
}
