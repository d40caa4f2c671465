import {
  CancelTaskRequest,
  DeleteTaskPushNotificationConfigRequest,
  GetTaskPushNotificationConfigRequest,
  GetTaskRequest,
  ListTaskPushNotificationConfigsRequest,
  SendMessageRequest,
  SubscribeToTaskRequest,
  TaskPushNotificationConfig,
} from '@a2a-js/sdk';
import type { A2ARequestHandler, ServerCallContext } from '@a2a-js/sdk/server';
import { beforeCalls } from '../http/call-hooks.js';
import { isLegacyVersion } from './legacy-version.js';
import { MALFORMED } from '../http/undecodable.js';

interface Codec {
  fromJSON(json: unknown): unknown;
  toJSON(value: never): unknown;
}

const CODECS: Partial<Record<keyof A2ARequestHandler, Codec>> = {
  sendMessage: SendMessageRequest,
  sendMessageStream: SendMessageRequest,
  getTask: GetTaskRequest,
  cancelTask: CancelTaskRequest,
  resubscribe: SubscribeToTaskRequest,
  createTaskPushNotificationConfig: TaskPushNotificationConfig,
  getTaskPushNotificationConfig: GetTaskPushNotificationConfigRequest,
  listTaskPushNotificationConfigs: ListTaskPushNotificationConfigsRequest,
  deleteTaskPushNotificationConfig: DeleteTaskPushNotificationConfigRequest,
};

/**
 * The request handler as calls of version 0.3 may reach it: the SDK translates them without looking at types, so what
 * they bring is put through the codecs that calls of 1.0 come by.
 */
export const recodeLegacyParams = (handler: A2ARequestHandler): A2ARequestHandler =>
  beforeCalls(handler, (name, args) => {
    const [params, context] = args as [unknown, ServerCallContext | undefined];
    const codec = CODECS[name];
    return codec && context && isLegacyVersion(context.requestedVersion) ? [recoded(codec, params), context] : args;
  });

function recoded(codec: Codec, params: unknown): unknown {
  try {
    return codec.fromJSON(codec.toJSON(params as never));
  } catch {
    throw MALFORMED;
  }
}
