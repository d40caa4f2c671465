import { PushTargetGuard } from './push-target.guard.js';
import { optionsWith } from '../../../../test/helpers/options.js';
import { NetworkFormatError } from '../errors/network-format.error.js';
import { blockList } from '../options/networks.js';

const guardAllowing = (...allow: string[]): PushTargetGuard => new PushTargetGuard(optionsWith({ push: { allow } }));
const guard = guardAllowing();

describe('PushTargetGuard', () => {
  it.each([
    '0.0.0.0',
    '10.1.2.3',
    '100.64.0.1',
    '127.0.0.1',
    '127.255.255.254',
    '169.254.169.254',
    '168.63.129.16',
    '172.16.0.1',
    '172.31.255.255',
    '192.0.0.1',
    '192.88.99.1',
    '192.168.1.1',
    '198.18.0.1',
    '224.0.0.1',
    '255.255.255.255',
    '::',
    '::1',
    '::7f00:1',
    '::ffff:0:7f00:1',
    '64:ff9c::1',
    '1fff::1',
    '4000::1',
    'a000::1',
    '::ffff:127.0.0.1',
    '::ffff:a9fe:a9fe',
    '0:0:0:0:0:ffff:10.0.0.1',
    '64:ff9b::10.0.0.1',
    '64:ff9b::7f00:1',
    '64:ff9b:1::1',
    '2001::1',
    '2001:db8::1',
    '2002:7f00:1::',
    'fc00::1',
    'fd00:ec2::254',
    'fe80::1',
    'fe80::1%eth0',
    'fec0::1',
    'ff02::1',
    'localhost',
    '',
  ])('refuses %s', (address) => {
    expect(guard.refusal(address, 'https:')).toBeDefined();
  });

  it.each([
    '93.184.216.34',
    '100.128.0.1',
    '172.32.0.1',
    '2606:2800:220:1::1',
    '::ffff:93.184.216.34',
    '64:ff9b::8.8.8.8',
  ])('lets %s through, over https only', (address) => {
    expect(guard.refusal(address, 'https:')).toBeUndefined();
    expect(guard.refusal(address, 'http:')).toContain('only https');
  });

  it('what is allowed may be private, and without TLS; its neighbours may not', () => {
    const allowing = guardAllowing('10.1.0.0/16', 'fd00::/8');
    for (const address of ['10.1.2.3', '::ffff:10.1.2.3', 'fd12::1']) {
      expect(allowing.refusal(address, 'http:')).toBeUndefined();
    }
    for (const address of ['10.2.0.1', 'fc00::1', '127.0.0.1'])
      expect(allowing.refusal(address, 'http:')).toBeDefined();
    expect(allowing.refusal('93.184.216.34', 'http:')).toContain('only https');
  });

  it.each([
    ['https://10.0.0.1/', true],
    ['https://2130706433/', true],
    ['https://0177.0.0.1/', true],
    ['https://[::ffff:7f00:1]/', true],
    ['https://example.com/', false],
    ['http://example.com/', true],
    ['https://93.184.216.34/', false],
  ])('judges %s without looking anything up', (url, refused) => {
    expect(guard.refusalOfUrl(new URL(url)) !== undefined).toBe(refused);
  });

  it.each(['10.0.0.0', '10.0.0.0/33', '::/129', 'example.com/8', '10.0.0.0/8/8', ''])(
    'takes no %j for a network',
    (network) => {
      expect(() => blockList([network])).toThrow(NetworkFormatError);
    },
  );
});
