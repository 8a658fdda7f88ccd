import type { WireHistory, WireSftLine, WireTrajectoryGroup } from '@trainyard/protocol';
import { JsonLine } from '@trainyard/store/blobs';

import { JsonText, toOrderedJson } from '../../seams/json/ordered-json.ts';
import { asWritten, keepSourceTexts, sourceTextOf } from '../../seams/json/source-texts.ts';
import { areWritten, toolsTextOf } from '../../seams/chat/written-values.ts';

type Conversation = Pick<WireHistory, 'tools' | 'chat_template_kwargs'>;

/**
 * A group as a line of a job's data. Tools and template variables keep their source text: spelling of
 * numbers, order of keys.
 */
export function groupLine(group: WireTrajectoryGroup): WireTrajectoryGroup | JsonLine {
  const isAnyWritten = group.trajectories.some(
    (trajectory) => isWritten(trajectory) || trajectory.additional_histories?.some(isWritten),
  );
  if (!isAnyWritten) return group;
  const trajectories = group.trajectories.map((trajectory) => ({
    ...trajectory,
    ...writtenParts(trajectory),
    ...(trajectory.additional_histories && {
      additional_histories: trajectory.additional_histories.map((history) => ({
        ...history,
        ...writtenParts(history),
      })),
    }),
  }));
  return new JsonLine(toOrderedJson({ ...group, trajectories }));
}

/** A conversation of a supervised job as a line of its data. @see groupLine */
export function conversationLine(line: WireSftLine): WireSftLine | JsonLine {
  return isWritten(line) ? new JsonLine(toOrderedJson({ ...line, ...writtenParts(line) })) : line;
}

/** Reads a stored line and keeps the source texts of tools and variables that {@link groupLine} wrote. */
export function readStoredLine(text: string): unknown {
  const value: unknown = JSON.parse(text);
  keepSourceTexts(value, text);
  return value;
}

function isWritten({ tools, chat_template_kwargs: variables }: Conversation): boolean {
  return (tools ? areWritten(tools) : false) || sourceTextOf(variables) !== null;
}

function writtenParts({ tools, chat_template_kwargs: variables }: Conversation): object {
  const text = toolsTextOf(tools);
  return {
    ...(text === null ? {} : { tools: new JsonText(text) }),
    ...(sourceTextOf(variables) === null ? {} : { chat_template_kwargs: asWritten(variables) }),
  };
}
