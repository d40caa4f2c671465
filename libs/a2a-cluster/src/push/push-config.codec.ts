import { TaskPushNotificationConfig } from '@a2a-js/sdk';

export const encodeConfig = (config: TaskPushNotificationConfig): string =>
  JSON.stringify(TaskPushNotificationConfig.toJSON(config));

export const decodeConfig = (text: string): TaskPushNotificationConfig =>
  TaskPushNotificationConfig.fromJSON(JSON.parse(text));
