import { randomUUID } from 'node:crypto';
import { type Message, type Part, Role, type SendMessageRequest, type SubscribeToTaskRequest } from '@a2a-js/sdk';
import { ServerCallContext } from '@a2a-js/sdk/server';

export const textPart = (value: string): Part => ({
  content: { $case: 'text', value },
  metadata: undefined,
  filename: '',
  mediaType: 'text/plain',
});

export function userMessage(text: string): Message {
  return {
    ...{ messageId: randomUUID(), contextId: '', taskId: '', role: Role.ROLE_USER, parts: [textPart(text)] },
    ...{ metadata: undefined, extensions: [], referenceTaskIds: [] },
  };
}

/** A send of a new message; a blocking one unless it is to return at once. */
export function sendRequest(text: string, { returnImmediately = false } = {}): SendMessageRequest {
  return {
    tenant: '',
    message: userMessage(text),
    configuration: {
      ...{ acceptedOutputModes: [], taskPushNotificationConfig: undefined, historyLength: undefined },
      returnImmediately,
    },
    metadata: undefined,
  };
}

export const subscription = (id: string): SubscribeToTaskRequest => ({ tenant: '', id });

/** The call of somebody whom nobody has asked for a name, or of the owner given. */
export const callContext = (owner?: string): ServerCallContext =>
  new ServerCallContext({
    tenant: '',
    user: { isAuthenticated: owner !== undefined, userName: owner ?? '' },
  });
