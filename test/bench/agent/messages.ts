import type { SendMessageRequest, SubscribeToTaskRequest } from '@a2a-js/sdk';
import { ServerCallContext } from '@a2a-js/sdk/server';
import { userMessage } from '../../../tools/harness/client.js';

/** A send of a new message; a blocking one unless it is to return at once. */
export function sendRequest(text: string, { returnImmediately = false } = {}): SendMessageRequest {
  return {
    tenant: '',
    message: userMessage(text),
    configuration: {
      acceptedOutputModes: [],
      taskPushNotificationConfig: undefined,
      historyLength: undefined,
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
