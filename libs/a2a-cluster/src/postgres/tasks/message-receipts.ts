import type { MessageReceipt, TaskScope } from '../../tasks/task-store.js';
import type { ClusterDatabase } from '../connection/cluster-database.js';
import type { SqlExecutor } from '../connection/statement.js';
import {
  forgetOrphanStatement,
  type ReceiptKey,
  type ReceiptTables,
  rememberStatement,
  repeatedStatement,
} from './receipt-statements.js';
import { RepeatedLookups } from './repeated-lookups.js';

/** The messages that were accepted before. A new task's first commit brings its own receipt. */
export class MessageReceipts {
  private readonly lookups: RepeatedLookups;
  private readonly repeatedOne: ReturnType<typeof repeatedStatement>;
  private readonly remembered: ReturnType<typeof rememberStatement>;
  private readonly orphan: ReturnType<typeof forgetOrphanStatement>;

  constructor(
    database: ClusterDatabase,
    tables: ReceiptTables,
    private readonly agent: string,
  ) {
    this.lookups = new RepeatedLookups(database, tables, agent);
    this.repeatedOne = database.prepared(repeatedStatement(tables));
    this.remembered = database.prepared(rememberStatement(tables));
    this.orphan = forgetOrphanStatement(tables);
  }

  /** The task of a message that was accepted before. */
  find(scope: TaskScope, receipt: MessageReceipt): Promise<number | undefined> {
    return this.lookups.find(scope, receipt);
  }

  /** The same within a transaction. */
  async repeated(tx: SqlExecutor, scope: TaskScope, receipt: MessageReceipt): Promise<number | undefined> {
    const [row] = await this.repeatedOne.run(tx, { ...this.keyOf(scope, receipt), windowMs: receipt.windowMs });
    return row && Number(row.taskNo);
  }

  /** The message of a follow-up, under its task's lock. */
  async remember(tx: SqlExecutor, scope: TaskScope, receipt: MessageReceipt, taskNo: number): Promise<void> {
    await this.remembered.run(tx, { ...this.keyOf(scope, receipt), windowMs: receipt.windowMs, taskNo });
  }

  /** A receipt whose task was deleted. */
  async forgetOrphan(tx: SqlExecutor, scope: TaskScope, receipt: MessageReceipt): Promise<void> {
    await this.orphan.run(tx, this.keyOf(scope, receipt));
  }

  private keyOf({ tenant, owner }: TaskScope, { messageId, fingerprint }: MessageReceipt): ReceiptKey {
    return { tenant, owner, agent: this.agent, messageId, fingerprint };
  }
}
