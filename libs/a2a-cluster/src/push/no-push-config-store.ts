import { PushNotificationNotSupportedError } from '@a2a-js/sdk/errors';
import type { TaskPushNotificationConfig } from '@a2a-js/sdk';
import { type ClaimedPush, PushConfigStore } from './push-config-store.js';

/** Where tasks are kept by a store of the app's own and no receivers are kept beside it: there is no push. */
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
