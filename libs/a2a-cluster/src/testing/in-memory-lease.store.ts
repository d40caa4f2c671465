import type { ClaimedLease, ClaimRequest, LeaseRequest, RenewedLease } from '../leases/lease-store.js';
import { type HeldLeaseInfo, SeparateLeaseStore } from '../leases/separate-lease-store.js';
import type { TaskScope } from '../tasks/task-scope.js';

interface Lease extends LeaseRequest {
  scope: TaskScope;
  generation: number;
  admittedVersion: number;
  attempt: number;
  /** Whether the run of its holder is counted in `attempt`. */
  begun: boolean;
  claims: number;
  current: string | null;
  expiresAt: number;
  renewedAt: number;
  cancelRequested: boolean;
}

/** Leases in the memory of this process: for tests. Several apps of one process share them by sharing the instance. */
export class InMemoryLeaseStore extends SeparateLeaseStore {
  private readonly leases = new Map<string, Lease>();
  private lastGeneration = 0;

  override acquire(scope: TaskScope, request: LeaseRequest, admittedVersion: number): Promise<number | undefined> {
    const held = this.leases.get(keyOf(scope));
    if (held) {
      const ours = held.turnId === request.turnId && held.current === request.holder && held.claims === 0;
      return Promise.resolve(ours ? held.generation : undefined);
    }
    const now = Date.now();
    const generation = ++this.lastGeneration;
    this.leases.set(keyOf(scope), {
      ...request,
      scope,
      generation,
      admittedVersion,
      current: request.holder,
      renewedAt: now,
      attempt: 1,
      begun: true,
      claims: 0,
      expiresAt: now + request.ttlMs,
      cancelRequested: request.kind === 'cancel',
    });
    return Promise.resolve(generation);
  }

  override find(scope: TaskScope): Promise<HeldLeaseInfo | undefined> {
    const held = this.leases.get(keyOf(scope));
    if (!held) return Promise.resolve(undefined);
    const { generation, turnId, admittedVersion, expiresAt } = held;
    return Promise.resolve({ generation, turnId, admittedVersion, expired: expiresAt <= Date.now() });
  }

  override renew(holder: string, generations: readonly number[], ttlMs: number): Promise<RenewedLease[]> {
    const kept = this.of(generations).filter(({ current }) => current === holder);
    for (const lease of kept) {
      lease.renewedAt = Date.now();
      lease.expiresAt = lease.renewedAt + ttlMs;
    }
    return Promise.resolve(kept.map(({ generation, cancelRequested }) => ({ generation, cancelRequested })));
  }

  override claim({ holder, ttlMs, limit, scope, endingAfterAttempts }: ClaimRequest): Promise<ClaimedLease[]> {
    const now = Date.now();
    const abandoned = [...this.leases.values()]
      .filter((lease) => lease.expiresAt <= now && (!scope || keyOf(scope) === keyOf(lease.scope)))
      .filter((lease) => endingAfterAttempts === undefined || ends(lease, endingAfterAttempts))
      .sort((one, other) => one.expiresAt - other.expiresAt)
      .slice(0, limit);
    return Promise.resolve(abandoned.map((lease) => this.take(lease, holder, ttlMs, now)));
  }

  override begin(generation: number): Promise<boolean> {
    const [lease] = this.of([generation]);
    if (lease && !lease.begun) Object.assign(lease, { attempt: lease.attempt + 1, begun: true });
    return Promise.resolve(lease !== undefined);
  }

  override release(generation: number): Promise<boolean> {
    const [lease] = this.of([generation]);
    return Promise.resolve(lease !== undefined && this.leases.delete(keyOf(lease.scope)));
  }

  override handOver(generation: number, afterMs: number): Promise<boolean> {
    return Promise.resolve(this.letGo(generation, { current: null, expiresAt: Date.now() + afterMs }));
  }

  override putBack(claimed: ClaimedLease, afterMs: number): Promise<boolean> {
    const { generation, lastHolder, lastRenewedAt } = claimed;
    const found = { current: lastHolder, renewedAt: lastRenewedAt.getTime() };
    return Promise.resolve(this.letGo(generation, { ...found, expiresAt: Date.now() + afterMs }));
  }

  override requestCancel(scope: TaskScope): Promise<void> {
    const lease = this.leases.get(keyOf(scope));
    if (lease) lease.cancelRequested = true;
    if (lease?.current === null) lease.expiresAt = Math.min(lease.expiresAt, Date.now());
    return Promise.resolve();
  }

  override inspect(generations: readonly number[]): Promise<{ cancelRequested: number[]; lost: number[] }> {
    const found = this.of(generations);
    const held = new Set(found.map(({ generation }) => generation));
    return Promise.resolve({
      cancelRequested: found.filter((lease) => lease.cancelRequested).map(({ generation }) => generation),
      lost: generations.filter((generation) => !held.has(generation)),
    });
  }

  override close(): Promise<void> {
    return Promise.resolve();
  }

  /** Lets a lease run out now: what a test does instead of waiting. */
  expire(scope: TaskScope): void {
    const lease = this.leases.get(keyOf(scope));
    if (lease) lease.expiresAt = Date.now();
  }

  /** How many turns hold a lease. */
  get size(): number {
    return this.leases.size;
  }

  private of(generations: readonly number[]): Lease[] {
    const asked = new Set(generations);
    return [...this.leases.values()].filter(({ generation }) => asked.has(generation));
  }

  /** Under a new generation, and without the run that has begun under this one. */
  private letGo(generation: number, changes: Partial<Lease>): boolean {
    const [lease] = this.of([generation]);
    if (!lease) return false;
    if (lease.begun) lease.attempt -= 1;
    Object.assign(lease, { ...changes, begun: false, generation: ++this.lastGeneration });
    return true;
  }

  private take(lease: Lease, holder: string, ttlMs: number, now: number): ClaimedLease {
    const { scope, kind, turnId, admittedVersion, cancelRequested, request, context } = lease;
    const before = { lastHolder: lease.current, lastRenewedAt: new Date(lease.renewedAt) };
    lease.generation = ++this.lastGeneration;
    lease.claims += 1;
    Object.assign(lease, { current: holder, begun: false, renewedAt: now, expiresAt: now + ttlMs });
    const { generation } = lease;
    const attempt = lease.attempt + 1;
    return { generation, scope, kind, turnId, admittedVersion, attempt, cancelRequested, request, context, ...before };
  }
}

/** It is to be canceled, or has been run often enough. */
const ends = ({ cancelRequested, kind, attempt }: Lease, attempts: number): boolean =>
  cancelRequested || kind === 'cancel' || attempt >= attempts;

const keyOf = ({ tenant, owner, taskId }: TaskScope): string => JSON.stringify([tenant, owner, taskId]);
