import './chat-page.css';
import { useQuery } from '@tanstack/react-query';
import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from 'react';
import { useSearchParams } from 'wouter';

import { chatSchemaQuery, servedModelsQuery } from '../api/chat.ts';
import { sessionQuery } from '../api/session.ts';
import { Menu, MenuItem } from '../components/actions/menu.tsx';
import { Button } from '../components/button.tsx';
import { Empty } from '../components/empty.tsx';
import { Fault } from '../components/fault.tsx';
import { Page } from '../components/page.tsx';
import { AnswerView } from './answer-view.tsx';
import { chatFields, fieldValue } from './chat-fields.ts';
import { messagesFor } from './chat-session.ts';
import { FieldsForm } from './fields-form.tsx';
import { type KeptChat, KeptChats } from './kept-chats.ts';
import { ModelChoice } from './model-choice.tsx';
import { servedNames } from './served-names.ts';
import { SnippetDialog } from './snippet-dialog.tsx';
import { ToolsEditor } from './tools-editor.tsx';
import { chatBody, useChat } from './use-chat.ts';
import { shownName } from '../components/shown-name.ts';

/**
 * Initial values: the greedy reply, so that two models can be compared, and a limit for a model that never
 * ends. The form shows both, and they can be cleared.
 */
const FIRST_TEXTS = { temperature: '0', max_tokens: '256' };

/** A chat with any model, or with two at once. */
export function ChatPage() {
  const { data: served, error } = useQuery(servedModelsQuery);
  const { data: session } = useQuery(sessionQuery);
  const names = useMemo(() => served?.data.map(({ id }) => id) ?? [], [served]);
  if (served === undefined) return <Page title="Chat">{error === null ? null : <Fault error={error} />}</Page>;
  // Prefers the newest model trained here.
  const [first] = servedNames(names);
  return <Chat names={names} first={first?.name ?? ''} keyId={session?.key?.id ?? ''} />;
}

function Chat({ names, first, keyId }: { names: readonly string[]; first: string; keyId: string }) {
  const [parameters, setParameters] = useSearchParams();
  const chosen = parameters.getAll('model');
  const models = chosen.length > 0 ? chosen.slice(0, 2) : [first];
  const chats = useMemo(() => new KeptChats(keyId), [keyId]);
  const chatId = parameters.get('chat') ?? '';
  const [kept] = useState(() => chats.get(chatId));
  const [listed, setListed] = useState(() => chats.list());
  const [system, setSystem] = useState(kept?.system ?? '');
  const [texts, setTexts] = useState<Readonly<Record<string, string>>>(FIRST_TEXTS);
  const [input, setInput] = useState('');
  const [isShowingTokens, setIsShowingTokens] = useState(true);
  const schema = useQuery(chatSchemaQuery);
  const form = useMemo(() => (schema.data === undefined ? [] : chatFields(schema.data)), [schema.data]);
  const { fields, fault } = useMemo(() => {
    try {
      const values = form.map((field) => [field.name, fieldValue(field, texts[field.name] ?? '')] as const);
      return { fields: Object.fromEntries(values.filter(([, value]) => value !== undefined)), fault: null };
    } catch (error) {
      return { fields: {}, fault: error as Error };
    }
  }, [form, texts]);
  const { exchanges, isStreaming, send, continueFrom, stop, replace } = useChat(
    { models, system, fields },
    kept?.exchanges,
  );
  const address = (next: readonly string[], chat: string) =>
    setParameters(
      new URLSearchParams([...next.map((name) => ['model', name]), ...(chat === '' ? [] : [['chat', chat]])]),
      {
        replace: true,
      },
    );
  const choose = (next: readonly string[]) => address(next, chatId);
  // Kept when an answer has ended, so that a reload continues with it.
  useEffect(() => {
    if (isStreaming || exchanges.length === 0 || chatId === '') return;
    chats.put({ id: chatId, models, system, exchanges });
    setListed(chats.list());
  }, [isStreaming, exchanges, chatId]);
  const latest = useRef({ id: chatId, models, system, exchanges, isStreaming });
  latest.current = { id: chatId, models, system, exchanges, isStreaming };
  // An answer that is coming is kept when the page is left or loaded again.
  useEffect(() => {
    const keep = () => {
      const { isStreaming: isComing, ...chat } = latest.current;
      if (isComing && chat.id !== '') chats.put(chat);
    };
    addEventListener('pagehide', keep);
    return () => {
      removeEventListener('pagehide', keep);
      keep();
    };
  }, [chats]);
  const open = (chat: KeptChat | null) => {
    replace(chat?.exchanges ?? []);
    setSystem(chat?.system ?? system);
    address(chat?.models ?? models, chat?.id ?? '');
  };
  /** Asks again from an earlier input; the conversation so far stays in the list. */
  const branch = (at: number) => {
    setInput(exchanges[at]!.input);
    replace(exchanges.slice(0, at));
    address(models, at === 0 ? '' : newId());
  };
  const submit = () => {
    if (input.trim() === '' || isStreaming || fault !== null) return;
    if (chatId === '') address(models, newId());
    send(input);
    setInput('');
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    submit();
  };
  const shownExchanges = exchanges.length === 0 ? [{ input: input || 'Hello', answers: [] }] : exchanges;
  const body = chatBody(models[0]!, messagesFor(shownExchanges, shownExchanges.length - 1, 0, system), fields);
  return (
    <Page
      title="Chat"
      actions={
        <>
          <Button aria-pressed={isShowingTokens} onClick={() => setIsShowingTokens(!isShowingTokens)}>
            Probabilities
          </Button>
          <SnippetDialog body={body} />
          <ChatsMenu kept={listed} current={chatId} onOpen={open} />
          <Button disabled={exchanges.length === 0} onClick={() => open(null)}>
            New chat
          </Button>
        </>
      }
    >
      <div className="chat">
        <div className="chat-main">
          <div className="chat-models">
            {models.map((model, side) => (
              <ModelChoice
                key={side}
                label={models.length === 1 ? 'Model' : `Model ${side + 1}`}
                model={model}
                names={names}
                onChoose={(name) => choose(models.map((other, place) => (place === side ? name : other)))}
              />
            ))}
            {models.length === 1 ? (
              <Button onClick={() => choose([models[0]!, firstOther(names, models[0]!)])}>
                Compare with another model
              </Button>
            ) : (
              <Button look="quiet" onClick={() => choose([models[0]!])}>
                Stop comparing
              </Button>
            )}
          </div>
          {exchanges.length === 0 ? (
            <Empty title="Ask something">
              Every token of the answer shows its probability and its likeliest alternatives. You can continue from any
              of them.
            </Empty>
          ) : (
            <ol className="chat-exchanges" aria-label="Conversation">
              {exchanges.map(({ input: asked, answers }, at) => (
                <li key={at} className="chat-exchange">
                  <div className="chat-branch">
                    {isStreaming ? null : (
                      <Button look="quiet" aria-label={`Edit and ask again: ${asked}`} onClick={() => branch(at)}>
                        Edit
                      </Button>
                    )}
                    <p className="chat-input">
                      <strong className="visually-hidden">You: </strong>
                      {asked}
                    </p>
                  </div>
                  <div className="chat-answers" data-columns={models.length}>
                    {models.map((model, side) => {
                      const answer = answers[side];
                      return answer === undefined || answer === null ? null : (
                        <AnswerView
                          key={side}
                          model={model}
                          answer={answer}
                          hasTokens={isShowingTokens}
                          onContinue={
                            at < exchanges.length - 1 || isStreaming
                              ? null
                              : (tokens, index, instead) => continueFrom(side, tokens, index, instead)
                          }
                        />
                      );
                    })}
                  </div>
                </li>
              ))}
            </ol>
          )}
          <form
            className="chat-composer"
            onSubmit={(event) => {
              event.preventDefault();
              submit();
            }}
          >
            <textarea
              className="input"
              aria-label="Message"
              placeholder="Message (Enter sends, Shift+Enter starts a line)"
              rows={3}
              value={input}
              onChange={({ target }) => setInput(target.value)}
              onKeyDown={onKeyDown}
            />
            {isStreaming ? (
              <Button look="danger" onClick={stop}>
                Stop
              </Button>
            ) : (
              <Button look="primary" type="submit" disabled={input.trim() === '' || fault !== null}>
                Send
              </Button>
            )}
          </form>
        </div>
        <aside className="chat-settings" aria-label="Request settings">
          <label className="field">
            System message
            <textarea className="input" rows={3} value={system} onChange={({ target }) => setSystem(target.value)} />
          </label>
          <ToolsEditor
            tools={texts['tools'] ?? ''}
            choice={texts['tool_choice'] ?? ''}
            onChange={(changed) => setTexts({ ...texts, ...changed })}
          />
          {fault === null ? null : <Fault error={fault} />}
          {schema.error === null ? null : <Fault error={schema.error} />}
          <FieldsForm fields={form} texts={texts} onChange={(name, text) => setTexts({ ...texts, [name]: text })} />
        </aside>
      </div>
    </Page>
  );
}

/** Kept conversations of this browser. */
function ChatsMenu({
  kept,
  current,
  onOpen,
}: {
  kept: readonly KeptChat[];
  current: string;
  onOpen: (chat: KeptChat) => void;
}) {
  if (kept.length === 0) return null;
  return (
    <Menu label={`Chats (${kept.length})`}>
      {kept.map((chat) => (
        <MenuItem key={chat.id} onSelect={() => onOpen(chat)}>
          {chat.id === current ? '• ' : ''}
          {shownName(chat.title)}
        </MenuItem>
      ))}
    </Menu>
  );
}

/** Pages over plain HTTP have no `crypto.randomUUID`. */
function newId(): string {
  return `${Date.now().toString(36)}${Math.random().toString(36).slice(2, 8)}`;
}

/** Step 0 of the same model if it has one, which is the model before training. */
function firstOther(names: readonly string[], model: string): string {
  const bare = model.replace(/:step\d+$/, '');
  return (
    names.find((name) => name === `${bare}:step0` && name !== model) ?? names.find((name) => name !== model) ?? model
  );
}
