import { useMemo } from 'react';

import { Button } from '../components/button.tsx';
import { Fault } from '../components/fault.tsx';
import { StatusDot } from '../components/status-dot.tsx';
import { TokenFacts, TokenLegend, TokenText } from '../tokens/token-text.tsx';
import { formatProbability, SURPRISE_LEGEND, surpriseLevel, visibleToken } from '../tokens/token-tone.ts';
import { type Answer, timingText } from './chat-session.ts';
import type { Reply, ReplyToken } from './reply.ts';
import { shownName } from '../components/shown-name.ts';

type Continue = (tokens: readonly ReplyToken[], index: number, instead?: string) => void;

/** The answer of one model, as text or by its tokens. @param onContinue null while it cannot continue from a token */
export function AnswerView({
  model,
  answer: { replies, isStreaming, error, timing },
  hasTokens,
  onContinue,
}: {
  model: string;
  answer: Answer;
  hasTokens: boolean;
  onContinue: Continue | null;
}) {
  return (
    <article className="answer" aria-label={`Answer of ${shownName(model)}`} aria-busy={isStreaming}>
      <header className="answer-head">
        <strong>{shownName(model)}</strong>
        {isStreaming ? <StatusDot tone="live">answering</StatusDot> : null}
        {timing === null ? null : <span>{timingText(timing)}</span>}
      </header>
      <div className="answer-choices" data-many={replies.length > 1 || undefined}>
        {replies.map((reply, index) => (
          <ReplyView
            key={index}
            name={replies.length > 1 ? `Choice ${index + 1} of ${model}` : model}
            reply={reply}
            hasTokens={hasTokens}
            // The conversation continues with the first choice.
            onContinue={index === 0 ? onContinue : null}
          />
        ))}
      </div>
      {error === null ? null : <Fault error={error} />}
    </article>
  );
}

function ReplyView({
  name,
  reply,
  hasTokens,
  onContinue,
}: {
  name: string;
  reply: Reply;
  hasTokens: boolean;
  onContinue: Continue | null;
}) {
  const { content, reasoning, calls, tokens, finishReason } = reply;
  const shown = useMemo(
    () => tokens.map(({ text, logprob }) => ({ text, level: surpriseLevel(logprob), isContext: false })),
    [tokens],
  );
  return (
    <div className="answer-choice">
      {hasTokens && tokens.length > 0 ? (
        <>
          <TokenText
            label={`Tokens of ${shownName(name)}`}
            tokens={shown}
            tone="surprise"
            facts={(index) => <ReplyTokenFacts tokens={tokens} index={index} onContinue={onContinue} />}
          />
          <TokenLegend tone="surprise" levels={SURPRISE_LEGEND} />
        </>
      ) : (
        <>
          {reasoning === '' ? null : <p className="answer-reasoning">{reasoning}</p>}
          {content === '' ? null : <p className="answer-text">{content}</p>}
        </>
      )}
      {calls.map((call, index) => (
        <p key={index}>
          <small className="soft">calls</small>{' '}
          <code>
            {shownName(call.name)}({call.arguments})
          </code>
        </p>
      ))}
      {finishReason === null || finishReason === 'stop' ? null : (
        <small className="soft">
          {finishReason === 'length' ? 'Cut off at the token limit.' : `Ended: ${finishReason.replaceAll('_', ' ')}.`}
        </small>
      )}
    </div>
  );
}

function ReplyTokenFacts({
  tokens,
  index,
  onContinue,
}: {
  tokens: readonly ReplyToken[];
  index: number;
  onContinue: Continue | null;
}) {
  const token = tokens[index]!;
  const others = token.alternatives.filter(({ text }) => text !== token.text);
  return (
    <>
      <TokenFacts facts={[['probability', formatProbability(token.logprob)]]} />
      <span className="alternatives" role="group" aria-label="Alternatives">
        {others.map(({ text, logprob }) => (
          <Button
            key={text}
            disabled={onContinue === null}
            aria-label={`Continue with ${visibleToken(text)} instead, ${formatProbability(logprob)}`}
            title="Continue with this token instead"
            onClick={() => onContinue?.(tokens, index, text)}
          >
            {visibleToken(text)} <span className="soft">{formatProbability(logprob)}</span>
          </Button>
        ))}
        <Button disabled={onContinue === null} onClick={() => onContinue?.(tokens, index)}>
          Continue from here
        </Button>
      </span>
    </>
  );
}
