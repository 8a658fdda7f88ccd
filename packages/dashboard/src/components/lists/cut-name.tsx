import './cut-name.css';

/** Characters at the end that stay: names of a sweep differ there. */
const TAIL = 12;

/** A name on one line, cut in its middle if it has no room; the title has all of it. */
export function CutName({ text }: { text: string }) {
  if (text.length <= 2 * TAIL) return <span title={text}>{text}</span>;
  return (
    <span className="cut-name" title={text}>
      <span>{text.slice(0, -TAIL)}</span>
      <span>{text.slice(-TAIL)}</span>
    </span>
  );
}
