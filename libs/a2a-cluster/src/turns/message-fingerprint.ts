import { createHash } from 'node:crypto';
import { Message } from '@a2a-js/sdk';
import type { MessageReceipt } from '../tasks/task-store.js';

/** Identifies repetitions of this message, as it was sent; undefined if they are not recognised. */
export function receiptOf(message: Message, windowMs: number): MessageReceipt | undefined {
  if (windowMs === 0) return undefined;
  const content = JSON.stringify(Message.toJSON(message));
  const fingerprint = createHash('sha256').update(content).digest('base64url');
  return { messageId: message.messageId, fingerprint, windowMs };
}
