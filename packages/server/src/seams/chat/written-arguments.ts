import type { WireTrajectoryGroup } from '@trainyard/protocol';

import { sourceTextOf } from '../json/source-texts.ts';
import { messageToolsText } from './written-values.ts';
import { isObject } from '../json/is-object.ts';

/**
 * Gives calls of tools whose arguments are objects the text of these, where `JSON.parse` has lost something of it: `1.0`, long integers, the order of keys that
 * look like integers. Templates write them then as they write arguments that are texts. The same for tools of a message.
 *
 * @param messages changed in place; what is no message is left
 */
export function writeArguments(messages: readonly unknown[]): void {
  for (const item of messages) {
    if (!isObject(item)) continue;
    const message = isObject(item['message']) ? item['message'] : item;
    const { tool_calls: calls, tools } = message;
    const toolsText = messageToolsText(tools);
    if (toolsText !== null) message['tools'] = toolsText;
    if (!Array.isArray(calls)) continue;
    for (const call of calls as unknown[]) {
      const called = isObject(call) ? call['function'] : null;
      if (!isObject(called)) continue;
      const text = sourceTextOf(called['arguments']);
      if (text !== null) called['arguments'] = text;
    }
  }
}

/** Those of all histories. @param groups changed in place */
export function writeArgumentsOf(groups: readonly WireTrajectoryGroup[]): void {
  for (const { trajectories } of groups)
    for (const { messages_and_choices: items, additional_histories: others } of trajectories) {
      writeArguments(items ?? []);
      for (const history of others ?? []) writeArguments(history.messages_and_choices);
    }
}
