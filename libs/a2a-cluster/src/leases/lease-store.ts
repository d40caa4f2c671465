import type { TaskScope } from '../tasks/task-scope.js';

/** The kind of turn that a lease is for. */
export type TurnKind = 'message' | 'cancel';

/** The lease that a turn asks for when it is admitted. */
export interface LeaseRequest {
  kind: TurnKind;
  /** The same over all attempts of the turn. */
  turnId: string;
  /** The replica that will run it. */
  holder: string;
  /** How long it holds without a renewal, in ms of the database's clock. */
  ttlMs: number;
  /** JSON of the SendMessageRequest; null for a cancel turn. */
  request: string | null;
  /** JSON made by the context codec: what rebuilds the caller. */
  context: string;
}

/** A lease as a renewal round reports it: still held. */
export interface RenewedLease {
  generation: number;
  cancelRequested: boolean;
}

/** An abandoned lease that this replica now holds, under a new generation. */
export interface ClaimedLease {
  generation: number;
  /** The task that it is for; undefined if that was deleted meanwhile. */
  scope: TaskScope | undefined;
  kind: TurnKind;
  turnId: string;
  admittedVersion: number;
  /** The number that its next run has: one more than runs have begun, but for one that was handed over. */
  attempt: number;
  cancelRequested: boolean;
  /** Its last holder; null if it was waiting for a replica. */
  lastHolder: string | null;
  /** When it was last renewed, by the database's clock. */
  lastRenewedAt: Date;
  /** Null for a cancel turn, and where it was not asked for. */
  request: string | null;
  /** Empty where it was not asked for. */
  context: string;
}

/** Selects the expired leases to claim, and their new holder. */
export interface ClaimRequest {
  holder: string;
  ttlMs: number;
  /** How many at most. */
  limit: number;
  /** Only the lease of this task, as a follow-up or a cancel that found it expired asks. */
  scope?: TaskScope;
  /**
   * Only leases of turns that are certainly not run again: those that are to be canceled, whose runs have begun this often,
   * whose task has ended or waits, or that left an unresolved effect which must not be repeated.
   */
  endingAfterAttempts?: number;
  /** Whether what runs the turn again is wanted too: `request` and `context`. Default: true. */
  withRequest?: boolean;
}

/**
 * Holds the leases. Provide your own under this class as the token (`extraProviders`) to replace it. Whether a lease is
 * alive is decided by the store's clock alone; releasing and claiming are fenced by generation, which only grows for a task.
 *
 * The task store acquires and releases these leases inside of its own transactions. A store that keeps leases elsewhere
 * extends {@link SeparateLeaseStore} instead.
 *
 * What its errors mean: {@link StoreUnavailableError}: ask again. Anything else is a defect: it is logged, and not tried
 * again. A lost lease is no error: the methods return it.
 */
export abstract class LeaseStore {
  /**
   * Renews the leases that are still held. A generation that does not come back is lost. A released lease never comes
   * back. A lease of the holder that is not named runs out, as if it were not renewed. A replica that boots calls it with
   * no generations.
   *
   * Undefined: the leases were renewed, and none of them can have been claimed because it had run out. Whether one was
   * canceled or ended could not be seen. The holder goes on with those that were live until now.
   *
   * Several calls may be under way at once, each with the leases that were held when it began. Any of them may be late, or
   * fail.
   * @param timeoutMs After this time nobody waits for it any more: it may stop. Default: the store's own.
   */
  abstract renew(
    holder: string,
    generations: readonly number[],
    ttlMs: number,
    timeoutMs?: number,
  ): Promise<RenewedLease[] | undefined>;

  /** Takes over expired leases of this agent: of several callers exactly one gets each. No run is counted by it. */
  abstract claim(request: ClaimRequest): Promise<ClaimedLease[]>;

  /**
   * Counts the run of a claimed turn, which begins now. Done once under a generation, however often it is asked for. False
   * where the lease is no longer that generation: then nothing begins.
   */
  abstract begin(generation: number): Promise<boolean>;

  /** Drops a lease without an event. False where it is no longer that generation. */
  abstract release(generation: number): Promise<boolean>;

  /**
   * Lets go of a lease in favour of whoever claims it: it has no holder, and can be claimed in `afterMs`. A run that has
   * begun under this generation is not counted: it goes on as the next one. False where it is no longer that generation.
   */
  abstract handOver(generation: number, afterMs: number): Promise<boolean>;

  /**
   * Puts a claimed lease back as it was found, to be claimed in `afterMs`: whether or not its last holder lives. False where
   * it is no longer that claim's.
   */
  abstract putBack(claimed: ClaimedLease, afterMs: number): Promise<boolean>;

  /** Of these generations, the ones for which a cancel was requested, and the ones that are gone. */
  abstract inspect(generations: readonly number[]): Promise<{ cancelRequested: number[]; lost: number[] }>;

  /**
   * Forgets what it remembers of holders that were renewed last so long ago and hold nothing, up to a number of them.
   * Returns how many it forgot. Default: there is nothing to forget.
   */
  prune(_olderThanMs: number, _limit: number): Promise<number> {
    return Promise.resolve(0);
  }

  /** Closes what the store opened for itself. */
  abstract close(): Promise<void>;
}
