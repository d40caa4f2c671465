import { randomUUID } from 'node:crypto';
import { type Message, Role } from '@a2a-js/sdk';

/** A user's message: to the sample's agent one command a line. */
export function userMessage(text: string, taskId = ''): Message {
  return {
    messageId: randomUUID(),
    taskId,
    contextId: '',
    role: Role.ROLE_USER,
    parts: [{ content: { $case: 'text', value: text }, metadata: undefined, filename: '', mediaType: 'text/plain' }],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
  };
}
