import type { ScriptedEngineOptions } from '@trainyard/generation/testing';
import type { ChatCompletion, ErrorBody } from '@trainyard/protocol';

import { ScriptedEngineInference } from './scripted-engine.ts';
import { TestServer } from './test-server.ts';

/** Logits by text: a one-byte token, or the end of the reply as `END`. All other tokens are far below. */
export type LogitsByText = Readonly<Record<string, number>>;
export const END = '<|im_end|>';
/** Low enough that no bias and no penalty brings a token back. */
const FAR_BELOW = -1000;

/** A service with a scripted model, called over HTTP. */
export class ScriptedService {
  readonly server: TestServer<ScriptedEngineInference>;

  private constructor(server: TestServer<ScriptedEngineInference>) {
    this.server = server;
  }

  static async open(options: ScriptedEngineOptions = {}): Promise<ScriptedService> {
    return new ScriptedService(await TestServer.startOn(await ScriptedEngineInference.open(options)));
  }

  get inference(): ScriptedEngineInference {
    return this.server.inference;
  }

  /** Sets the text of all later replies; see `ScriptedEngine.setReply`. */
  setReply(text: string | ((prompt: string) => string)): void {
    this.inference.model.setReply(text);
  }

  /** Sets the logits of all later replies; a function gets the reply so far. */
  prefer(logits: LogitsByText | ((reply: string) => LogitsByText)): void {
    const { tokenizer } = this.inference.model;
    this.inference.model.setModel(({ replyIds }, row) => {
      row.fill(FAR_BELOW);
      const now = typeof logits === 'function' ? logits(tokenizer.decode(replyIds)) : logits;
      for (const [text, logit] of Object.entries(now)) row[tokenizer.encodeWithSpecial(text)[0]!] = logit;
    });
  }

  /** @throws if the status is not 200 */
  async answer(fields: Record<string, unknown> = {}): Promise<ChatCompletion> {
    const response = await this.server.chat(fields);
    if (response.statusCode !== 200) throw new Error(response.body);
    return response.json<ChatCompletion>();
  }

  /** The only choice: its text, and the reason of its end. */
  async reply(fields: Record<string, unknown> = {}): Promise<{ content: string; reason: string; stop: unknown }> {
    const [choice] = (await this.answer(fields)).choices;
    return { content: choice!.message.content!, reason: choice!.finish_reason, stop: choice!.stop_reason };
  }

  async content(fields: Record<string, unknown> = {}): Promise<string> {
    return (await this.reply(fields)).content;
  }

  /** Prompt as the model receives it. */
  async prompt(fields: Record<string, unknown> = {}): Promise<string> {
    return (await this.answer({ max_tokens: 1, ...fields, return_prompt_text: true })).prompt_text!;
  }

  /** `status param`, such as `400 n`. @throws if the status is 200 */
  async refusal(fields: Record<string, unknown>): Promise<string> {
    const response = await this.server.chat(fields);
    if (response.statusCode === 200) throw new Error(`accepted: ${response.body}`);
    return `${response.statusCode} ${response.json<ErrorBody>().error.param}`;
  }

  async message(fields: Record<string, unknown>): Promise<string> {
    return (await this.server.chat(fields)).json<ErrorBody>().error.message;
  }

  async close(): Promise<void> {
    await this.server.close();
    this.inference.close();
  }
}
