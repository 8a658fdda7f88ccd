import type { WireSftLine } from '@trainyard/protocol';
import type { SftExample } from '@trainyard/trainer';

import { pythonTools, pythonVariables } from '../../seams/chat/written-values.ts';

/** A checked line as the trainer reads it. */
export function sftExampleOf({ messages, tools, chat_template_kwargs: variables }: WireSftLine): SftExample {
  return {
    messages: messages as SftExample['messages'],
    tools: pythonTools(tools),
    ...(variables ? { templateVariables: pythonVariables(variables) } : {}),
  };
}
