import { isObject } from '../json/is-object.ts';
import { LeftOut, leftOutText, mediaOf, reporting } from './left-out.ts';

/**
 * Parts that no model here reads, by the member that holds their content. Some clients send that member
 * without the type.
 */
const UNREADABLE: Readonly<Record<string, { readonly what: 'Image' | 'File'; readonly from: string }>> = {
  image_url: { what: 'Image', from: 'image_url' },
  input_image: { what: 'Image', from: 'image_url' },
  image: { what: 'Image', from: 'source' },
  image_embeds: { what: 'Image', from: 'image_embeds' },
  image_pil: { what: 'Image', from: 'image_pil' },
  input_audio: { what: 'File', from: 'input_audio' },
  audio_url: { what: 'File', from: 'audio_url' },
  video_url: { what: 'File', from: 'video_url' },
  file: { what: 'File', from: 'file' },
  input_file: { what: 'File', from: 'file_data' },
};

/**
 * Returns a chat with text-only tool results: a placeholder replaces each picture, sound or file. Its answer
 * reports them.
 * @returns with the same `messages` if nothing changes
 */
export function toReadableChat<Chat extends { readonly messages?: readonly object[] }>(chat: Chat): Chat {
  const leftOut = new LeftOut();
  const { messages } = chat;
  if (messages === undefined) return chat;
  const readable = withReadableResults(messages, leftOut);
  return readable === messages ? chat : reporting({ ...chat, messages: readable }, leftOut);
}

/**
 * Messages with text-only tool results. Parts of other kinds stay unchanged.
 * @param messages and other items of a history
 * @param leftOut counts the replaced parts
 * @returns the messages themselves if nothing changes
 */
export function withReadableResults<Items extends readonly unknown[]>(messages: Items, leftOut = new LeftOut()): Items {
  if (!messages.some(hasUnreadable)) return messages;
  return messages.map((message) => {
    if (!hasUnreadable(message)) return message;
    return { ...message, content: message.content.map((part) => readablePart(part, leftOut)) };
  }) as readonly unknown[] as Items;
}

function hasUnreadable(message: unknown): message is { content: unknown[] } {
  if (!isObject(message) || (message['role'] !== 'tool' && message['role'] !== 'function')) return false;
  const { content } = message;
  return Array.isArray(content) && content.some((part) => kindOf(part) !== null);
}

function kindOf(part: unknown): string | null {
  if (!isObject(part)) return null;
  const { type } = part;
  if (typeof type === 'string') return Object.hasOwn(UNREADABLE, type) ? type : null;
  if (type !== undefined) return null;
  return Object.keys(UNREADABLE).find((kind) => Object.hasOwn(part, kind)) ?? null;
}

function readablePart(part: unknown, leftOut: LeftOut): unknown {
  const kind = kindOf(part);
  const unreadable = kind === null ? undefined : UNREADABLE[kind];
  if (kind === null || unreadable === undefined || !isObject(part)) return part;
  leftOut.add(kind);
  const content = part[unreadable.from];
  const found: Record<string, unknown> = isObject(content) ? { ...part, ...content } : { ...part, url: content };
  const { filename, media_type: type, mime_type: mime, format, url, data, file_data: file, file_url: other } = found;
  const media = [type, mime, mediaOf(url), mediaOf(file), mediaOf(other), mediaOf(data)].find(isMedia) ?? format;
  return { type: 'text', text: leftOutText(unreadable.what, [filename, media]) };
}

function isMedia(text: unknown): boolean {
  return typeof text === 'string' && /^(?:[\w.+-]+\/[\w.+-]+$|\w+:)/.test(text);
}
