import type { ClusterDatabase, SqlExecutor } from '../connection/cluster-database.js';
import type { PreparedTaskStatements } from './prepared-task-statements.js';
import { forgetOrphanStatement, type ReceiptTables } from './receipt-statements.js';
import { RepeatedLookups } from './repeated-lookups.js';
import type { MessageReceipt, TaskScope } from '../../tasks/task-store.js';

/** Which messages were accepted before. A new task's first commit brings its own receipt. */
export class MessageReceipts {
  private readonly lookups: RepeatedLookups;
  private readonly forget: string;

  constructor(
    database: ClusterDatabase,
    private readonly prepared: PreparedTaskStatements,
    tables: ReceiptTables,
    private readonly agent: string,
  ) {
    this.lookups = new RepeatedLookups(database, tables, agent);
    this.forget = forgetOrphanStatement(tables);
  }

  /** The task of a message that was accepted before. */
  find(scope: TaskScope, receipt: MessageReceipt): Promise<number | undefined> {
    return this.lookups.find(scope, receipt);
  }

  /** The same within a transaction. */
  async repeated(
    tx: SqlExecutor,
    { tenant, owner }: TaskScope,
    { messageId, fingerprint, windowMs }: MessageReceipt,
  ): Promise<number | undefined> {
    const params = [tenant, owner, this.agent, messageId, fingerprint, windowMs];
    const [row] = await tx.query<{ taskNo: string }>(this.prepared.repeated, params);
    return row && Number(row.taskNo);
  }

  /** The message of a follow-up, under its task's lock. */
  async remember(
    tx: SqlExecutor,
    { tenant, owner }: TaskScope,
    { messageId, fingerprint, windowMs }: MessageReceipt,
    taskNo: number,
  ): Promise<void> {
    const params = [tenant, owner, this.agent, messageId, fingerprint, windowMs, taskNo];
    await tx.query(this.prepared.remember, params);
  }

  /** A receipt whose task was deleted. */
  async forgetOrphan(
    tx: SqlExecutor,
    { tenant, owner }: TaskScope,
    { messageId, fingerprint }: MessageReceipt,
  ): Promise<void> {
    await tx.query(this.forget, [tenant, owner, this.agent, messageId, fingerprint]);
  }
}
