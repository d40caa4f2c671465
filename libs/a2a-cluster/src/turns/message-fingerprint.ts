import { createHash } from 'node:crypto';
import { Message } from '@a2a-js/sdk';
import type { MessageReceipt } from '../tasks/task-store.js';

/** By what a repetition of this message is recognised; undefined where that is turned off. Takes it as it was sent. */
export function receiptOf(message: Message, windowMs: number): MessageReceipt | undefined {
  if (windowMs === 0) return undefined;
  const content = JSON.stringify(Message.toJSON(message));
  const fingerprint = createHash('sha256').update(content).digest('base64url');
  return { messageId: message.messageId, fingerprint, windowMs };
}
