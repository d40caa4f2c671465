import type { PostgresServer } from '../../../tools/harness/postgres-server.js';
import type { Administrator } from '../cluster/administrator.js';
import type { Cluster } from '../cluster/cluster.js';
import type { Random } from '../random.js';
import type { Recorder } from '../recorder.js';
import type { FaultClients } from '../workload/fault-clients.js';

/** What a fault can lay hands on. */
export interface Stage {
  readonly cluster: Cluster;
  readonly database: PostgresServer;
  readonly administrator: Administrator;
  readonly clients: FaultClients;
  readonly recorder: Recorder;
}

/** A fault with all that chance decides about it, decided. */
export interface PlannedFault {
  readonly number: number;
  /** Milliseconds after the start of the run. */
  readonly atMs: number;
  readonly kind: string;
  /** The replica it hits; faults of one replica wait for each other, and so do those of the database. */
  readonly replica: string | undefined;
  /** How long it lasts, where it lasts. */
  readonly forMs: number;
  /** Which of its forms, where there are several. */
  readonly form: string;
}

/** What is drawn for one fault beside its time and its replica. */
export type Draw = Pick<PlannedFault, 'forMs' | 'form'>;

export interface Fault {
  readonly kind: string;
  /** How often it comes, beside the others. */
  readonly weight: number;
  /** Whom it hits: any replica, one that is behind a proxy, the database, that and a replica, or clients. */
  readonly hits: 'replica' | 'network' | 'database' | 'database and replica' | 'clients';
  draw(random: Random): Draw;
  /** Does it and heals it again, whatever happens meanwhile. What it has to say of that goes into the recording. */
  apply(stage: Stage, planned: PlannedFault): Promise<string | void>;
}

/** The queues in which it waits for the faults before it: it is played when all of them have been healed. */
export function queuesOf({ hits }: Fault, { number, replica = '' }: PlannedFault): string[] {
  if (hits === 'database') return ['database'];
  if (hits === 'database and replica') return ['database', replica];
  // What clients do waits for nobody: it is about a replica that may well be down.
  return [hits === 'clients' ? `clients ${number}` : replica];
}

export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** The replica that a fault was planned for. */
export function target({ replica }: PlannedFault): string {
  if (replica === undefined) throw new Error('This fault was planned for no replica');
  return replica;
}
