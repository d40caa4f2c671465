import { createWriteStream } from 'node:fs';
import { once } from 'node:events';
import type { Json } from './recording.js';

export interface TaskRow {
  readonly taskNo: number;
  readonly taskId: string;
  readonly agent: string;
  readonly owner: string;
  readonly state: string;
  readonly version: number;
  readonly stateVersion: number;
  /** JSON text, as are the events. */
  readonly snapshot: string;
  readonly snapshotVersion: number;
}

export interface EventRow {
  readonly taskNo: number;
  readonly version: number;
  readonly event: string;
  readonly commitId: string;
}

export interface LeaseRow {
  readonly taskNo: number;
  readonly generation: number;
  readonly holder: string | null;
  readonly agent: string;
}

export interface EffectRow {
  readonly taskNo: number;
  readonly turnId: string;
  readonly key: string;
  readonly state: string;
  readonly replay: string;
  readonly attempt: number;
  readonly generation: number;
}

export interface PushConfigRow {
  readonly taskNo: number;
  readonly configId: string;
  readonly delivered: number;
  readonly failed: string | null;
}

export interface AuditRow {
  readonly seq: number;
  /** Milliseconds since the epoch, by the database's clock. */
  readonly at: number;
  readonly txid: string;
  readonly source: 'task' | 'event' | 'lease' | 'effect' | 'push';
  readonly op: 'insert' | 'update' | 'delete';
  readonly taskNo: number;
  readonly before: Json | null;
  readonly after: Json | null;
}

/** The database once all is quiet, and what the triggers wrote down on the way there. */
export interface Dump {
  readonly tasks: readonly TaskRow[];
  readonly events: readonly EventRow[];
  readonly leases: readonly LeaseRow[];
  readonly effects: readonly EffectRow[];
  readonly pushConfigs: readonly PushConfigRow[];
  readonly dispatches: readonly { readonly taskId: string; readonly key: string }[];
  readonly entries: readonly {
    readonly taskId: string;
    readonly key: string;
    readonly account: string;
    readonly amount: number;
  }[];
  readonly audit: readonly AuditRow[];
}

/** A JSON line for each row: as one text it would be too long for a long run. */
export async function writeDump(path: string, dump: Dump): Promise<void> {
  const file = createWriteStream(path);
  for (const [table, rows] of Object.entries(dump) as [string, readonly object[]][]) {
    for (const row of rows) {
      if (!file.write(`${JSON.stringify({ table, ...row })}\n`)) await once(file, 'drain');
    }
  }
  file.end();
  await once(file, 'close');
}
