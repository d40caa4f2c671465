import { DatabaseOverloadedError } from '../../errors/database-overloaded.error.js';
import { ConnectionQueue, type Lane } from './connection-queue.js';

describe('Who may use a connection next', () => {
  let connections: number;
  let begun: string[];
  let queue: ConnectionQueue;

  beforeEach(() => {
    connections = 5;
    begun = [];
    queue = new ConnectionQueue(() => connections);
  });

  const ask = (lane: Lane, name: string) => queue.ask(lane, () => begun.push(name));
  const askAll = (lane: Lane, ...names: string[]) => names.map((name) => ask(lane, name));

  it('no more begin than there are connections, and the next one when a turn is over', () => {
    askAll('renewal', 'a', 'b', 'c', 'd', 'e', 'f');
    expect(begun).toEqual(['a', 'b', 'c', 'd', 'e']);
    queue.done('renewal');
    expect(begun.at(-1)).toBe('f');
  });

  it('renewals and control work find a connection whatever turns and readers are at', () => {
    askAll('read', 'r1', 'r2', 'r3');
    askAll('turn', 't1', 't2');
    askAll('control', 'c1', 'c2');
    askAll('renewal', 'n1', 'n2');
    expect(begun).toEqual(['r1', 'r2', 't1', 'c1', 'n1']);
    queue.done('control');
    expect(begun.at(-1)).toBe('n2');
  });

  it('turns and readers take their turns in the order in which they came', () => {
    askAll('turn', 't1', 't2', 't3');
    ask('read', 'r1');
    ask('turn', 't4');
    ask('read', 'r2');
    for (let done = 0; done < 3; done += 1) queue.done('turn');
    expect(begun).toEqual(['t1', 't2', 't3', 'r1', 't4', 'r2']);
  });

  it('readers alone leave one connection to turns', () => {
    askAll('read', 'r1', 'r2', 'r3');
    ask('turn', 't1');
    expect(begun).toEqual(['r1', 'r2', 't1']);
    queue.done('turn');
    expect(begun).toEqual(['r1', 'r2', 't1']);
    queue.done('read');
    expect(begun.at(-1)).toBe('r3');
  });

  it('one that has given up is not begun, and holds up nobody', () => {
    askAll('renewal', 'a', 'b', 'c', 'd', 'e');
    const [first] = askAll('renewal', 'gone', 'next');
    first!.cancel();
    queue.done('renewal');
    expect(begun.at(-1)).toBe('next');
    first!.cancel();
  });

  it('a thousand that have given up cost nothing when their turn would have come', () => {
    askAll('renewal', 'a', 'b', 'c', 'd', 'e');
    const waiters = Array.from({ length: 1_000 }, (_, at) => ask('turn', `t${at}`));
    for (const waiter of waiters) waiter.cancel();
    for (let done = 0; done < 5; done += 1) queue.done('renewal');
    expect(begun).toHaveLength(5);
  });

  it('one too many is refused at once, and the others of its lane wait on', () => {
    connections = 0;
    ask('read', 'first');
    const waiting = Array.from({ length: 2_000 }, (_, at) => ask('read', `r${at}`));
    expect(() => ask('read', 'too many')).toThrow(new DatabaseOverloadedError(2_000));
    expect(() => ask('turn', 'of another lane')).not.toThrow();
    waiting[0]!.cancel();
    expect(() => ask('read', 'again')).not.toThrow();
  });

  it('with fewer connections than lanes all share what there is', () => {
    connections = 1;
    ask('read', 'r1');
    ask('renewal', 'n1');
    ask('control', 'c1');
    expect(begun).toEqual(['r1']);
    queue.done('read');
    queue.done('renewal');
    expect(begun).toEqual(['r1', 'n1', 'c1']);
  });

  it('one whose connection could not be made goes before the others of its lane', () => {
    askAll('renewal', 'a', 'b', 'c', 'd', 'e');
    ask('turn', 'waits');
    queue.askAgain('turn', () => begun.push('again'));
    queue.done('renewal');
    expect(begun.slice(5)).toEqual(['again']);
    queue.done('renewal');
    expect(begun.slice(5)).toEqual(['again', 'waits']);
  });
});
