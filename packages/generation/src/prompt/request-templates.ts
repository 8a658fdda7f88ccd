import { TemplateSandbox as TemplateChildren, type Tokenizer } from '@trainyard/tokenizer';
import type { TemplateSandbox } from './chat.ts';

/**
 * Renders templates of requests in child processes that are killed if they take too long or too much memory.
 */
export function requestTemplates(tokenizer: Tokenizer, options: { allowsControlTokens: boolean }): TemplateSandbox {
  const children = new TemplateChildren(options);
  return {
    render: (source, { messages, options }, signal) =>
      children.render({ ...options, tokenizer, source, messages, signal }),
    close: () => children.close(),
  };
}
