import type { TaskPushNotificationConfig } from '@a2a-js/sdk';
import type { ClusterDatabase } from '../connection/cluster-database.js';
import { untilAnswered } from '../connection/repeatable.js';
import type { Statement } from '../connection/statement.js';
import { encodeConfig } from '../../push/push-config.codec.js';
import { type PushStatements, pushStatements, type PushTables } from './push-config-statements.js';
import {
  type ClaimedPush,
  type PushConfigPage,
  PushConfigStore,
  type PushClaimRequest,
  type PushProgress,
  type PushRegistration,
} from '../../push/push-config-store.js';

/** Receivers in the app's database, beside its tasks. */
export class TypeOrmPushConfigStore extends PushConfigStore {
  private readonly sql: PushStatements;

  constructor(
    private readonly database: ClusterDatabase,
    tables: PushTables,
    private readonly agent: string,
  ) {
    super();
    this.sql = pushStatements(tables);
  }

  override async save(taskNo: number, { config, wireVersion }: PushRegistration): Promise<void> {
    await this.repeated(this.sql.save, { taskNo, configId: config.id, config: encodeConfig(config), wireVersion });
  }

  override list(taskNo: number, page?: PushConfigPage): Promise<TaskPushNotificationConfig[]> {
    return this.repeated(this.sql.list, { taskNo, afterId: page?.afterId ?? '', limit: page?.limit });
  }

  override async find(taskNo: number, configId: string): Promise<TaskPushNotificationConfig | undefined> {
    const [config] = await this.repeated(this.sql.find, { taskNo, configId });
    return config;
  }

  override async delete(taskNo: number, configId: string): Promise<void> {
    await this.repeated(this.sql.delete, { taskNo, configId });
  }

  override claim({ limit, claimMs, lastNotification, first }: PushClaimRequest): Promise<ClaimedPush[]> {
    return this.sql.claim.run(this.database, {
      agent: this.agent,
      limit,
      claimMs,
      failed: lastNotification && lastNotification === 'failed',
      newFirst: first === 'new',
    });
  }

  override async progress(claimed: ClaimedPush, progress: PushProgress): Promise<string | undefined> {
    const { deliveredVersion, attempts, againInMs, failed } = progress;
    const which = { taskNo: claimed.taskNo, configId: claimed.config.id, claim: claimed.claim };
    const [row] = await this.sql.progress.run(this.database, {
      ...which,
      deliveredVersion,
      attempts,
      againInMs: againInMs === Infinity ? undefined : againInMs,
      failed,
    });
    if (!row) await this.sql.release.run(this.database, which);
    return row?.claim;
  }

  /** Repeats a client's request after trouble that passes. Doing it twice has the effect of doing it once. */
  private repeated<P extends object, R extends object>(statement: Statement<P, R>, params: P): Promise<R[]> {
    return untilAnswered(this.database, (timeoutMs) => statement.run(this.database, params, { timeoutMs }));
  }
}
