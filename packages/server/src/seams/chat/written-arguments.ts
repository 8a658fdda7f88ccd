import type { WireTrajectoryGroup } from '@trainyard/protocol';

import { sourceTextOf } from '../json/source-texts.ts';
import { messageToolsText } from './written-values.ts';
import { isObject } from '../json/is-object.ts';

/**
 * Attaches the source text of tool calls with object arguments, and of a message's tools, if `JSON.parse`
 * lost a part: `1.0`, long integers, the order of keys that look like integers. Templates then render it like
 * arguments sent as text.
 * @param messages changed in place; other items are ignored
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

/** The same for all histories. @param groups changed in place */
export function writeArgumentsOf(groups: readonly WireTrajectoryGroup[]): void {
  for (const { trajectories } of groups)
    for (const { messages_and_choices: items, additional_histories: others } of trajectories) {
      writeArguments(items ?? []);
      for (const history of others ?? []) writeArguments(history.messages_and_choices);
    }
}
