import type { StreamResponse, Task } from '@a2a-js/sdk';
import { V03PushNotificationSerializer } from '@a2a-js/sdk/compat/v0_3/server';
import { type PushNotificationSerializer, V1PushNotificationSerializer } from '@a2a-js/sdk/server';
import type { PushRegistration } from './push-config-store.js';
import type { PushRequest } from './push-client.js';

const TOKEN_HEADER = 'X-A2A-Notification-Token';

const V1 = new V1PushNotificationSerializer();
const SERIALIZERS: Readonly<Record<string, PushNotificationSerializer>> = {
  '1.0': V1,
  '0.3': new V03PushNotificationSerializer(),
};

/** Makes the notification of one event, in the form of the protocol version of the registration. */
export function pushNotification(
  { config, wireVersion }: PushRegistration,
  response: StreamResponse,
  task: Task | undefined,
): PushRequest {
  const { body, contentType } = (SERIALIZERS[wireVersion] ?? V1).serialize(response, task);
  const { url, token, authentication } = config;
  const headers: Record<string, string> = { 'content-type': contentType };
  if (authentication?.scheme && authentication.credentials) {
    headers.authorization = `${authentication.scheme} ${authentication.credentials}`;
  } else if (token) headers[TOKEN_HEADER] = token;
  return { url, headers, body };
}

/** Whether the form of that version shows the whole task with every event. */
export const needsTask = ({ wireVersion }: PushRegistration): boolean => wireVersion === '0.3';
