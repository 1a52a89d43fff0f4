# quell as a peer of the tunnel comparison: run through benches/peers/run, which names this file in PEERBENCH_EXTRA.
import os


class Quell(Peer):  # noqa: F821  (the comparison defines Peer before it reads this file)
    name = "quell"
    ver = "quell, TCP in the flow lane"
    port = 6610
    mtu = 1420
    bin = os.environ.get("QUELL_BIN", "quell")
    tcp = "flow"

    def key(self, side):
        path = f"{self.dir}/{side}.key"
        if os.path.exists(path):
            os.unlink(path)
        return sh(f"{self.bin} keygen --out {path}").strip()  # noqa: F821

    def tunnel(self):
        client, provider = self.key("client"), self.key("provider")
        with open(f"{self.dir}/provider.toml", "w") as f:
            f.write(
                f'listen = "{self.os_}:{self.port}"\nprivate_key_file = "provider.key"\nrun_dir = "{self.dir}"\n'
                f'[[clients]]\nname = "bench"\npublic_key = "{client}"\n'
                f'[addresses]\nipv4_pool = "10.99.0.0/30"\n'
                f'[egress]\nkind = "tun"\nmasquerade = false\ntun_name = "{self.si}"\nallow = ["10.99.0.1/32"]\n'
                f'[lanes]\ntcp = "{self.tcp}"\n'
                f'[control]\nsocket = "{self.dir}/provider.sock"\n')
        with open(f"{self.dir}/client.toml", "w") as f:
            f.write(
                f'private_key_file = "client.key"\nrun_dir = "{self.dir}"\n'
                f'[provider]\naddress = "{self.os_}:{self.port}"\npublic_key = "{provider}"\n'
                f'[tun]\nname = "{self.ci}"\n'
                f'[lanes]\ntcp = "{self.tcp}"\n'
                f'[control]\nsocket = "{self.dir}/client.sock"\n')
        self.spawn("s", [self.bin, "provide", f"{self.dir}/provider.toml"])
        time.sleep(.5)  # noqa: F821
        self.spawn("c", [self.bin, "up", f"{self.dir}/client.toml"])
        time.sleep(4)  # noqa: F821  (path MTU discovery settles within 3 s)


class QuellDgram(Quell):
    name = "quelldgram"
    ver = "quell, TCP in datagrams"
    tcp = "dgram"
