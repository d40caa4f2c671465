import { createHash } from 'node:crypto';
import { validateHeaderValue } from 'node:http';
import { Injectable } from '@nestjs/common';
import {
  type ListTaskPushNotificationConfigsRequest,
  type ListTaskPushNotificationConfigsResponse,
  TaskPushNotificationConfig,
} from '@a2a-js/sdk';
import { PushNotificationNotSupportedError, RequestMalformedError, TaskNotFoundError } from '@a2a-js/sdk/errors';
import type { ServerCallContext } from '@a2a-js/sdk/server';
import { PushConfigStore, type PushRegistration } from '../push/push-config-store.js';
import { PushDispatcher } from '../push/push-dispatcher.js';
import { PushTargetGuard } from '../push/push-target.guard.js';
import { racePoint } from '../race-points/race-points.js';
import { AgentCards } from './agent-cards.js';
import { checkId } from './request-validation.js';

/** The version of a call that names none, by the protocol. */
const LEGACY_VERSION = '0.3';

const MAX_URL_LENGTH = 2_048;

/** No server takes a longer header, Node's not even 16 kB of them all. */
const MAX_SECRET_LENGTH = 8_192;

/** Receivers on a page: at most some 2 MB. */
const MAX_PAGE_SIZE = 100;

/** The protocol's operations on push receivers. Whose task it is has been seen to before. */
@Injectable()
export class PushReceivers {
  constructor(
    private readonly cards: AgentCards,
    private readonly configs: PushConfigStore,
    private readonly dispatcher: PushDispatcher,
    private readonly guard: PushTargetGuard,
  ) {}

  /** Throws PushNotificationNotSupportedError where the card does not offer it. */
  requireSupport(): void {
    if (!this.cards.offered.capabilities?.pushNotifications) throw new PushNotificationNotSupportedError();
  }

  /** A receiver as it will be kept, of a call or of a message's configuration. Throws RequestMalformedError. */
  registration(
    given: TaskPushNotificationConfig,
    taskId: string,
    { requestedVersion }: ServerCallContext,
  ): PushRegistration {
    this.check(given);
    const id = given.id || idOf(given);
    return { config: { ...given, id, taskId }, wireVersion: requestedVersion || LEGACY_VERSION };
  }

  async create(taskNo: number, registration: PushRegistration): Promise<TaskPushNotificationConfig> {
    racePoint('push-register.before');
    await this.configs.save(taskNo, registration);
    racePoint('push-register.after');
    this.dispatcher.registered();
    return registration.config;
  }

  async get(taskNo: number, taskId: string, configId: string): Promise<TaskPushNotificationConfig> {
    const config = await this.configs.find(taskNo, configId);
    if (config) return config;
    throw new TaskNotFoundError(`Task ${taskId} has no push notification config ${JSON.stringify(configId)}.`);
  }

  /** A page of a task's receivers: a client may have registered any number. Throws RequestMalformedError. */
  async list(
    taskNo: number,
    { pageSize, pageToken }: Pick<ListTaskPushNotificationConfigsRequest, 'pageSize' | 'pageToken'>,
  ): Promise<ListTaskPushNotificationConfigsResponse> {
    const limit = pageSize || MAX_PAGE_SIZE;
    if (!Number.isInteger(limit) || limit < 0) {
      throw new RequestMalformedError(`pageSize is ${pageSize}: it must be a whole number, and not below 0.`);
    }
    const afterId = Buffer.from(pageToken ?? '', 'base64url').toString();
    if (afterId) checkId('the id in pageToken', afterId);
    const size = Math.min(limit, MAX_PAGE_SIZE);
    const found = await this.configs.list(taskNo, { afterId, limit: size + 1 });
    const configs = found.slice(0, size);
    const last = found.length > size ? configs.at(-1) : undefined;
    return { configs, nextPageToken: last ? Buffer.from(last.id).toString('base64url') : '' };
  }

  delete(taskNo: number, configId: string): Promise<void> {
    return this.configs.delete(taskNo, configId);
  }

  /** A receiver came with a message that is being stored. */
  registered(): void {
    this.dispatcher.registered();
  }

  private check({ id, url, token, authentication }: TaskPushNotificationConfig): void {
    if (id) checkId('the push notification config id', id);
    // URL would quietly leave control characters out.
    const usable = url.length <= MAX_URL_LENGTH && !/[\0-\x20\x7f]/.test(url) && URL.canParse(url);
    const target = usable ? new URL(url) : undefined;
    if (!target || !/^https?:$/.test(target.protocol)) {
      throw new RequestMalformedError('The URL of the push notification config is no http(s) URL.');
    }
    if (target.username || target.password) {
      throw new RequestMalformedError(
        'The URL of the push notification config holds credentials: use its authentication instead.',
      );
    }
    const refusal = this.guard.refusalOfUrl(target);
    if (refusal) throw new RequestMalformedError(`Push to ${target.host} is not allowed: ${refusal}.`);
    for (const secret of [token, authentication?.scheme, authentication?.credentials]) checkHeader(secret ?? '');
  }
}

/** The same receiver, registered twice without an id of its own, is one: a retried call adds none. */
function idOf(config: TaskPushNotificationConfig): string {
  const { url, token, authentication } = TaskPushNotificationConfig.toJSON(config) as TaskPushNotificationConfig;
  const text = JSON.stringify([url, token, authentication]);
  return createHash('sha256').update(text).digest('base64url').slice(0, 22);
}

/** Refuses a registration that could never be sent. The refusal does not repeat its secrets. */
function checkHeader(value: string): void {
  if (value.length > MAX_SECRET_LENGTH) {
    throw new RequestMalformedError(
      `The token or authentication of the push notification config is longer than ${MAX_SECRET_LENGTH} characters.`,
    );
  }
  try {
    validateHeaderValue('authorization', value);
  } catch {
    throw new RequestMalformedError('The token or authentication of the push notification config fits no HTTP header.');
  }
}
