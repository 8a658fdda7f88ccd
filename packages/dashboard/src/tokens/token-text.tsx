import './token-text.css';
import { type KeyboardEvent, memo, type ReactNode, useRef, useState } from 'react';

import { type ToneLevel, visibleToken } from './token-tone.ts';

export interface ShownToken {
  readonly text: string;
  readonly level: ToneLevel;
  /** True for text that was not sampled; it has no colour and no facts. */
  readonly isContext: boolean;
  /** Keeps a background without a colour. */
  readonly isTrained?: boolean;
  /** Framed: the loss clips its ratio. */
  readonly isClipped?: boolean;
}

/** A part of a text with a line above it; context can be folded to that line. */
export interface TokenPart {
  readonly start: number;
  /** Exclusive. */
  readonly end: number;
  readonly label: ReactNode;
  readonly isFolded: boolean;
}

/** Arrow keys move from token to token. */
const MOVES: Readonly<Record<string, number>> = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

/** Focuses a token of a text, which selects it and scrolls to it. */
export function focusToken(container: ParentNode | null, index: number): void {
  container?.querySelector<HTMLElement>(`[data-index="${index}"]`)?.focus();
}

/**
 * A text by its tokens, each with a colour and a line of matching strength. The mouse or the arrow keys select
 * one, and its facts are shown below.
 *
 * @param facts of the selected token
 * @param parts cover all tokens; without them the text is one part
 * @param opensFolds shows folded parts
 */
export function TokenText({
  label,
  tokens,
  tone,
  facts,
  parts,
  opensFolds = false,
}: {
  label: string;
  tokens: readonly ShownToken[];
  parts?: readonly TokenPart[];
  opensFolds?: boolean;
  /** `surprise` has one colour, `signed` two. */
  tone: 'surprise' | 'signed';
  facts: (index: number) => ReactNode;
}) {
  const [current, setCurrent] = useState<number | null>(null);
  const root = useRef<HTMLDivElement>(null);
  const firstLive = tokens.findIndex(({ isContext }) => !isContext);
  const stop = current ?? firstLive;
  const onKeyDown = (event: KeyboardEvent) => {
    const move = MOVES[event.key];
    if (move === undefined) return;
    event.preventDefault();
    let next = stop + move;
    while (tokens[next]?.isContext === true) next += move;
    if (tokens[next] === undefined) return;
    focusToken(root.current, next);
  };
  const indexOf = (target: EventTarget) => {
    const index = target instanceof HTMLElement ? target.dataset['index'] : undefined;
    return index === undefined ? null : Number(index);
  };
  const look = (target: EventTarget) => {
    const index = indexOf(target);
    if (index !== null) setCurrent(index);
  };
  return (
    <>
      <div
        ref={root}
        className="token-text"
        role="group"
        aria-label={label}
        onMouseOver={({ target }) => look(target)}
        onFocus={({ target }) => look(target)}
        onKeyDown={onKeyDown}
      >
        {(parts ?? [{ start: 0, end: tokens.length, label: null, isFolded: false }]).map((part) =>
          part.isFolded ? (
            <details key={part.start} className="token-fold" open={opensFolds}>
              <summary>{part.label}</summary>
              <span className="token" data-context="">
                {tokens
                  .slice(part.start, part.end)
                  .map(({ text }) => text)
                  .join('')}
              </span>
            </details>
          ) : (
            <TokenRange
              key={part.start}
              tokens={tokens}
              part={part}
              tone={tone}
              current={isWithin(current, part) ? current : null}
              tabStop={isWithin(stop, part) ? stop : null}
            />
          ),
        )}
      </div>
      <div className="token-facts" aria-live="polite">
        {current === null || tokens[current] === undefined ? (
          <span className="soft">Point at a token, or select one with Tab and the arrow keys.</span>
        ) : (
          <>
            <strong>{visibleToken(tokens[current].text)}</strong>
            {facts(current)}
          </>
        )}
      </div>
    </>
  );
}

function isWithin(index: number | null, { start, end }: TokenPart): boolean {
  return index !== null && index >= start && index < end;
}

const TokenRange = memo(function TokenRange({
  tokens,
  part: { start, end, label },
  tone,
  current,
  tabStop,
}: {
  tokens: readonly ShownToken[];
  part: TokenPart;
  tone: 'surprise' | 'signed';
  current: number | null;
  tabStop: number | null;
}) {
  return (
    <>
      {label === null ? null : <div className="token-turn">{label}</div>}
      {tokens.slice(start, end).map((token, offset) => (
        <Token
          key={start + offset}
          index={start + offset}
          token={token}
          tone={tone}
          isCurrent={start + offset === current}
          isTabStop={start + offset === tabStop}
        />
      ))}
    </>
  );
});

const Token = memo(function Token({
  index,
  token: { text, level, isContext, isTrained = false, isClipped = false },
  tone,
  isCurrent,
  isTabStop,
}: {
  index: number;
  token: ShownToken;
  tone: 'surprise' | 'signed';
  isCurrent: boolean;
  isTabStop: boolean;
}) {
  if (isContext)
    return (
      <span className="token" data-context="">
        {text}
      </span>
    );
  return (
    <span
      className="token"
      role="button"
      data-index={index}
      data-level={Math.abs(level)}
      data-tone={tone === 'surprise' ? undefined : level < 0 ? 'less' : 'more'}
      data-trained={isTrained || undefined}
      data-clipped={isClipped || undefined}
      aria-current={isCurrent}
      aria-label={text.trim() === '' ? visibleToken(text) : undefined}
      tabIndex={isTabStop ? 0 : -1}
    >
      {text}
    </span>
  );
});

/** Names and values of the selected token. */
export function TokenFacts({ facts }: { facts: readonly (readonly [name: string, value: ReactNode])[] }) {
  return (
    <dl>
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Legend of the colours, each with its words. */
export function TokenLegend({
  tone,
  levels,
  isTrained = false,
}: {
  tone: 'surprise' | 'signed';
  levels: readonly (readonly [level: ToneLevel, words: string])[];
  isTrained?: boolean;
}) {
  return (
    <ul className="token-legend">
      {levels.map(([level, words]) => (
        <li key={level}>
          <span
            className="token"
            aria-hidden="true"
            data-level={Math.abs(level)}
            data-tone={tone === 'surprise' ? undefined : level < 0 ? 'less' : 'more'}
            data-trained={isTrained || undefined}
          >
            ab
          </span>{' '}
          {words}
        </li>
      ))}
    </ul>
  );
}
