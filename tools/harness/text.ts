import type { Message, Part } from '@a2a-js/sdk';

/** The text of a message: its text parts, a line each. */
export function textOf(message: Message | undefined): string {
  const parts = message?.parts ?? [];
  return parts.flatMap(({ content }) => (content?.$case === 'text' ? [content.value] : [])).join('\n');
}

/** A part that holds text. */
export function textPart(value: string): Part {
  return { content: { $case: 'text', value }, metadata: undefined, filename: '', mediaType: 'text/plain' };
}
