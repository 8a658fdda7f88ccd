import './token-text.css';
import { type KeyboardEvent, memo, type ReactNode, useRef, useState } from 'react';

import { type ToneLevel, visibleToken } from './token-tone.ts';

export interface ShownToken {
  readonly text: string;
  readonly level: ToneLevel;
  /** True for text that was not sampled; it has no colour and no facts. */
  readonly isContext: boolean;
}

/** Arrow keys move from token to token. */
const MOVES: Readonly<Record<string, number>> = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

/**
 * A text by its tokens, each with a colour and a line of matching strength. The mouse or the arrow keys select
 * one, and its facts are shown below.
 *
 * @param facts of the selected token
 */
export function TokenText({
  label,
  tokens,
  tone,
  facts,
}: {
  label: string;
  tokens: readonly ShownToken[];
  /** `surprise` has one colour, `signed` two. */
  tone: 'surprise' | 'signed';
  facts: (index: number) => ReactNode;
}) {
  const [current, setCurrent] = useState<number | null>(null);
  const root = useRef<HTMLDivElement>(null);
  const firstLive = tokens.findIndex(({ isContext }) => !isContext);
  const onKeyDown = (event: KeyboardEvent) => {
    const move = MOVES[event.key];
    if (move === undefined) return;
    event.preventDefault();
    let next = (current ?? firstLive) + move;
    while (tokens[next]?.isContext === true) next += move;
    if (tokens[next] === undefined) return;
    root.current?.querySelector<HTMLElement>(`[data-index="${next}"]`)?.focus();
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
        <Tokens tokens={tokens} tone={tone} current={current} tabStop={current ?? firstLive} />
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

const Tokens = memo(function Tokens({
  tokens,
  tone,
  current,
  tabStop,
}: {
  tokens: readonly ShownToken[];
  tone: 'surprise' | 'signed';
  current: number | null;
  tabStop: number;
}) {
  return tokens.map(({ text, level, isContext }, index) => (
    <Token
      key={index}
      index={index}
      text={text}
      level={level}
      tone={tone}
      isContext={isContext}
      isCurrent={index === current}
      isTabStop={index === tabStop}
    />
  ));
});

const Token = memo(function Token({
  index,
  text,
  level,
  tone,
  isContext,
  isCurrent,
  isTabStop,
}: {
  index: number;
  text: string;
  level: ToneLevel;
  tone: 'surprise' | 'signed';
  isContext: boolean;
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

/** Legend of the colours. */
export function TokenLegend({ tone, words }: { tone: 'surprise' | 'signed'; words: readonly [string, string] }) {
  const levels = tone === 'surprise' ? [0, 1, 2, 3, 4] : [-4, -2, 0, 2, 4];
  return (
    <div className="token-legend">
      <span>{words[0]}</span>
      <span aria-hidden="true">
        {levels.map((level) => (
          <span
            key={level}
            className="token"
            data-level={Math.abs(level)}
            data-tone={tone === 'surprise' ? undefined : level < 0 ? 'less' : 'more'}
          >
            {' '}
            ab{' '}
          </span>
        ))}
      </span>
      <span>{words[1]}</span>
    </div>
  );
}
