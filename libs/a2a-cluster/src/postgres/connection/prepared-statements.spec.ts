import { jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { PreparedStatements, statementName } from './prepared-statements.js';

/** As pg gives what the server has refused, in whatever language that speaks. */
const refusal = (code: string, message = 'abgelehnt'): Error => Object.assign(new Error(message), { code });

describe('Prepared statements that are refused', () => {
  const TEXT = 'SELECT a FROM t WHERE id = $1';
  let statements: PreparedStatements;
  let warnings: string[];

  beforeEach(() => {
    warnings = [];
    jest.spyOn(Logger.prototype, 'warn').mockImplementation((message: unknown) => void warnings.push(String(message)));
    statements = new PreparedStatements();
    statements.add(TEXT);
  });

  afterEach(() => jest.restoreAllMocks());

  const nameOf = (text = TEXT): string | undefined => statements.configOf(text, [1]).name;

  it.each(['26000', '42P05'])('C.19 by a session that does not know them (%s): none is prepared, said once', (code) => {
    statements.add('SELECT 2');
    const sent = statements.configOf(TEXT, [1]);
    expect(statements.refusalOf(refusal(code), sent)).toBe('pooler');
    expect(statements.refusalOf(refusal(code), sent)).toBe('pooler');
    expect([nameOf(), nameOf('SELECT 2')]).toEqual([undefined, undefined]);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toMatch(
      /not prepared any more.*pooler in transaction mode.*plans each statement at every call/,
    );
  });

  it('C.19 for a plan that a changed table has made stale: prepared anew, by every connection, without a word', () => {
    statements.add('SELECT 2');
    const sent = statements.configOf(TEXT, [1]);
    expect(sent.name).toBe(statementName(TEXT));
    expect(statements.refusalOf(refusal('0A000'), sent)).toBe('stale plan');
    const renewed = nameOf();
    expect(renewed).toMatch(/^a2a_\w+$/);
    expect(renewed).not.toBe(sent.name);
    // Others that had been sent under the old name find the new one.
    expect(statements.refusalOf(refusal('0A000'), sent)).toBe('stale plan');
    expect(nameOf()).toBe(renewed);
    expect(nameOf('SELECT 2')).toBe(statementName('SELECT 2'));
    expect(warnings).toEqual([]);
  });

  it('C.19 again and again under each new name: that one is not prepared any more, the others are', () => {
    statements.add('SELECT 2');
    let tries = 0;
    while (nameOf() !== undefined) {
      tries += 1;
      expect(statements.refusalOf(refusal('0A000'), statements.configOf(TEXT, [1]))).toBe('stale plan');
    }
    expect(tries).toBe(4);
    expect(statements.refusalOf(refusal('0A000'), statements.configOf(TEXT, [1]))).toBeUndefined();
    expect(nameOf('SELECT 2')).toBeDefined();
    expect(warnings).toHaveLength(1);
  });

  it('are told from statements that were sent without a name, and from other errors', () => {
    expect(statements.refusalOf(refusal('26000'), { text: TEXT })).toBeUndefined();
    expect(statements.refusalOf(refusal('0A000', 'cached plan'), { text: TEXT })).toBeUndefined();
    expect(statements.refusalOf(refusal('23505', 'cached plan'), statements.configOf(TEXT, [1]))).toBeUndefined();
    expect(nameOf()).toBe(statementName(TEXT));
  });
});
