import type { TaskPushNotificationConfig } from '@a2a-js/sdk';
import type { ClusterDatabase } from '../connection/cluster-database.js';
import { untilAnswered } from '../connection/repeatable.js';
import { decodeConfig, encodeConfig } from '../../push/push-config.codec.js';
import {
  claimStatement,
  deleteStatement,
  findStatement,
  listStatement,
  progressStatement,
  type PushTables,
  releaseStatement,
  saveStatement,
} from './push-config-statements.js';
import {
  type ClaimedPush,
  type PushConfigPage,
  PushConfigStore,
  type PushClaimRequest,
  type PushProgress,
  type PushRegistration,
} from '../../push/push-config-store.js';

type ClaimedRow = Omit<ClaimedPush, 'taskNo' | 'config'> & { taskNo: string; config: string };

/** Receivers in the app's database, beside its tasks. */
export class TypeOrmPushConfigStore extends PushConfigStore {
  constructor(
    private readonly database: ClusterDatabase,
    private readonly tables: PushTables,
    private readonly agent: string,
  ) {
    super();
  }

  override async save(taskNo: number, { config, wireVersion }: PushRegistration): Promise<void> {
    await this.repeated(saveStatement(this.tables), [taskNo, config.id, encodeConfig(config), wireVersion]);
  }

  override async list(taskNo: number, page?: PushConfigPage): Promise<TaskPushNotificationConfig[]> {
    const params = [taskNo, page?.afterId ?? '', page?.limit ?? null];
    const rows = await this.repeated<{ config: string }>(listStatement(this.tables), params);
    return rows.map(({ config }) => decodeConfig(config));
  }

  override async find(taskNo: number, configId: string): Promise<TaskPushNotificationConfig | undefined> {
    const [row] = await this.repeated<{ config: string }>(findStatement(this.tables), [taskNo, configId]);
    return row && decodeConfig(row.config);
  }

  override async delete(taskNo: number, configId: string): Promise<void> {
    await this.repeated(deleteStatement(this.tables), [taskNo, configId]);
  }

  override async claim({ limit, claimMs, lastNotification, first }: PushClaimRequest): Promise<ClaimedPush[]> {
    const failed = lastNotification === undefined ? null : lastNotification === 'failed';
    const params = [this.agent, limit, claimMs, failed, first === 'new'];
    const rows = await this.database.query<ClaimedRow>(claimStatement(this.tables), params);
    return rows.map(({ taskNo, config, ...row }) => ({ ...row, taskNo: Number(taskNo), config: decodeConfig(config) }));
  }

  override async progress(claimed: ClaimedPush, progress: PushProgress): Promise<string | undefined> {
    const { deliveredVersion, attempts, againInMs, failed = null } = progress;
    const due = againInMs === Infinity ? null : againInMs;
    const which = [claimed.taskNo, claimed.config.id, claimed.claim];
    const params = [...which, deliveredVersion, attempts, due, failed];
    const [row] = await this.database.query<{ claim: string }>(progressStatement(this.tables), params);
    if (!row) await this.database.query(releaseStatement(this.tables), which);
    return row?.claim;
  }

  /** What a client asks for is repeated where it fails in passing: done twice it leaves what it leaves done once. */
  private repeated<R extends object>(statement: string, params: unknown[]): Promise<R[]> {
    return untilAnswered(this.database, (timeoutMs) => this.database.query<R>(statement, params, timeoutMs));
  }
}
