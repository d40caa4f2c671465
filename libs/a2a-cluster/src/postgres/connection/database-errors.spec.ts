import { QueryFailedError } from 'typeorm';
import { CommitOutcomeUnknownError } from '../../errors/commit-outcome-unknown.error.js';
import { DatabaseConnectionError } from '../../errors/database-connection.error.js';
import { DatabaseOverloadedError } from '../../errors/database-overloaded.error.js';
import { DatabaseTimeoutError } from '../../errors/database-timeout.error.js';
import { StoreUnavailableError } from '../../errors/store-unavailable.error.js';
import { connectionTrouble, verdictOn } from './database-errors.js';

/** As the server says it, in the server's language. */
const refused = (code: string): Error => Object.assign(new Error('Abbruch der Anweisung'), { code });

/** The words of a verdict that are true. */
const wordsOf = (error: unknown): string =>
  Object.entries(verdictOn(error))
    .flatMap(([word, holds]) => (holds ? [word.replace('is', '').toLowerCase()] : []))
    .join(' ');

const DEFECT = '';
const AGAIN = 'passing';
const CONTENTION = 'passing contention';
const ELSEWHERE = 'passing unfit';
const FULL = 'passing unfit full';

describe('What an error of the database says', () => {
  it.each([
    ['01000', 'a warning', DEFECT],
    ['03000', 'statement not yet complete', DEFECT],
    ['08000', 'connection exception', ELSEWHERE],
    ['08006', 'connection failure', ELSEWHERE],
    ['08P01', 'protocol violation, as pgbouncer says of its own time-outs', ELSEWHERE],
    ['0A000', 'feature not supported', DEFECT],
    ['21000', 'cardinality violation', DEFECT],
    ['22021', 'a character that is not in the encoding', DEFECT],
    ['22P05', 'an untranslatable character', DEFECT],
    ['23502', 'not null', DEFECT],
    ['23505', 'unique', DEFECT],
    ['24000', 'invalid cursor state', DEFECT],
    ['25001', 'active transaction', DEFECT],
    ['25006', 'read only', ELSEWHERE],
    ['25P02', 'in a failed transaction', DEFECT],
    ['25P03', 'idle in transaction for too long', ELSEWHERE],
    ['25P04', 'transaction timeout', ELSEWHERE],
    ['26000', 'no such prepared statement', ELSEWHERE],
    ['28000', 'invalid authorization', ELSEWHERE],
    ['28P01', 'invalid password', ELSEWHERE],
    ['2BP01', 'dependent objects', DEFECT],
    ['34000', 'invalid cursor name', DEFECT],
    ['38000', 'external routine', DEFECT],
    ['3B001', 'invalid savepoint', DEFECT],
    ['3D000', 'no such database', ELSEWHERE],
    ['3F000', 'no such schema', DEFECT],
    ['40000', 'transaction rollback', CONTENTION],
    ['40001', 'serialization failure', CONTENTION],
    ['40002', 'transaction integrity', DEFECT],
    ['40003', 'statement completion unknown', AGAIN],
    ['40P01', 'deadlock', CONTENTION],
    ['42501', 'no right', DEFECT],
    ['42601', 'syntax', DEFECT],
    ['42703', 'no such column', DEFECT],
    ['42P01', 'no such table', DEFECT],
    ['42P05', 'prepared already', ELSEWHERE],
    ['44000', 'with check option', DEFECT],
    ['53100', 'disk full', AGAIN],
    ['53200', 'out of memory', AGAIN],
    ['53300', 'too many connections', FULL],
    ['53400', 'configuration limit', AGAIN],
    ['54000', 'program limit', DEFECT],
    ['55000', 'not in the state for it', DEFECT],
    ['55006', 'in use', AGAIN],
    ['55P03', 'lock time-out', CONTENTION],
    ['57014', 'canceled, or statement time-out', AGAIN],
    ['57P01', 'shutdown', ELSEWHERE],
    ['57P02', 'crash', ELSEWHERE],
    ['57P03', 'starting up', ELSEWHERE],
    ['57P04', 'database dropped', DEFECT],
    ['57P05', 'idle session', ELSEWHERE],
    ['58000', 'system error', AGAIN],
    ['58030', 'I/O error', AGAIN],
    ['58P01', 'undefined file', DEFECT],
    ['58P02', 'duplicate file', DEFECT],
    ['72000', 'snapshot too old', AGAIN],
    ['F0000', 'configuration file', DEFECT],
    ['HV000', 'foreign data wrapper', DEFECT],
    ['P0001', 'raised by a function', DEFECT],
    ['XX000', 'internal error', ELSEWHERE],
    ['XX001', 'data corrupted', DEFECT],
    ['XX002', 'index corrupted', DEFECT],
    ['ECONNREFUSED', 'nobody listens', ELSEWHERE],
    ['ECONNRESET', 'the socket was reset', ELSEWHERE],
    ['EPIPE', 'the socket is gone', ELSEWHERE],
    ['ENOTFOUND', 'the name leads nowhere', ELSEWHERE],
    ['EAI_AGAIN', 'no name server', ELSEWHERE],
    ['ERR_INVALID_ARG_TYPE', 'a mistake of ours', DEFECT],
    ['A2A_LEASE_LOST', 'an error of ours', DEFECT],
  ])('%s (%s): %s', (code, _what, words) => {
    expect(wordsOf(refused(code))).toBe(words);
    expect(wordsOf(new QueryFailedError('SELECT 1', [], refused(code)))).toBe(words);
  });

  it('what pg itself gives up, without a code, is trouble with the connection, whatever it says', () => {
    const said = connectionTrouble(new Error('Verbindung beendet'));
    expect(said).toBeInstanceOf(DatabaseConnectionError);
    expect(wordsOf(said)).toBe(ELSEWHERE);
    expect(wordsOf(new QueryFailedError('SELECT 1', [], new Error('Query read timeout')))).toBe(ELSEWHERE);
  });

  it('a mistake in the use of pg is a defect', () => {
    const mistake = new TypeError('Client was passed a null or undefined query');
    expect(connectionTrouble(mistake)).toBe(mistake);
    expect(wordsOf(mistake)).toBe(DEFECT);
    expect(wordsOf(new QueryFailedError('SELECT 1', [], mistake))).toBe(DEFECT);
  });

  it.each([
    [new DatabaseTimeoutError(1), ELSEWHERE],
    [new DatabaseOverloadedError(1), AGAIN],
    [new CommitOutcomeUnknownError(new Error('x')), AGAIN],
    [new Error('anything else'), DEFECT],
    [undefined, DEFECT],
    ['a text', DEFECT],
    [new StoreUnavailableError('of another store', { cause: new Error('LOADING') }), AGAIN],
    [new StoreUnavailableError('for rows', { cause: refused('40001') }), CONTENTION],
  ])('%s', (error, words) => {
    expect(wordsOf(error)).toBe(words);
  });
});
