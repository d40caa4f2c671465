import { PushNotificationNotSupportedError } from '@a2a-js/sdk/errors';
import type { TaskPushNotificationConfig } from '@a2a-js/sdk';
import { type ClaimedPush, PushConfigStore } from './push-config-store.js';

/** Has no receivers: the app has a task store of its own, and provides no push store beside it. */
export class NoPushConfigStore extends PushConfigStore {
  override save(): Promise<void> {
    return Promise.reject(new PushNotificationNotSupportedError());
  }

  override list(): Promise<TaskPushNotificationConfig[]> {
    return Promise.resolve([]);
  }

  override delete(): Promise<void> {
    return Promise.resolve();
  }

  override claim(): Promise<ClaimedPush[]> {
    return Promise.resolve([]);
  }

  override progress(): Promise<undefined> {
    return Promise.resolve(undefined);
  }
}
