"""Certificates for programs, made by the openssl command."""

import datetime
import os
import pathlib
import subprocess

DOMAIN = "spiffe://cluster.test/shoal"


class Authority:
    """Signs certificates in a folder of its own. A program's three files are options of its command line."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        folder.mkdir(parents=True)
        self.file = folder / "ca.pem"
        (folder / "index").touch()
        (folder / "serial").write_text("01")
        (folder / "signing.cnf").write_text(
            "[ca]\ndefault_ca = it\n"
            f"[it]\ndatabase = {folder}/index\nserial = {folder}/serial\nnew_certs_dir = {folder}\n"
            "default_md = sha256\npolicy = any\nunique_subject = no\n[any]\ncommonName = supplied\n"
        )
        self._openssl("req", "-x509", *self._new_key("ca-key.pem"), "-subj", f"/CN={folder.name}", "-out", self.file)

    def _openssl(self, *arguments: str | pathlib.Path) -> None:
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)

    def _new_key(self, name: str) -> list[str]:
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        return [*key, "-keyout", str(self.folder / name)]

    def issue(self, program: str, names: str, valid_s: int = 3600) -> list[str]:
        """The files of a program, put into their place one after the other, as whoever replaces them may do; returned
        as options. `names`: as subjectAltName has them."""
        request, extensions = self.folder / f"{program}.csr", self.folder / f"{program}.ext"
        self._openssl("req", "-new", *self._new_key("new-key.pem"), "-subj", f"/CN={program}", "-out", request)
        extensions.write_text(f"subjectAltName = {names}\n")
        until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=valid_s)
        signing = ["-config", self.folder / "signing.cnf", "-cert", self.file, "-keyfile", self.folder / "ca-key.pem"]
        self._openssl(
            "ca", "-batch", "-notext", *signing, "-in", request, "-out", self.folder / "new-cert.pem",
            "-extfile", extensions, "-startdate", "20200101000000Z", "-enddate", until.strftime("%Y%m%d%H%M%SZ"),
        )  # fmt: skip
        certificate, key = self.folder / f"{program}-cert.pem", self.folder / f"{program}-key.pem"
        os.replace(self.folder / "new-key.pem", key)
        os.replace(self.folder / "new-cert.pem", certificate)
        return ["--tls-cert", str(certificate), "--tls-key", str(key), "--tls-ca", str(self.file)]

    def member(self, path: str, valid_s: int = 3600) -> list[str]:
        """Of who has this path in the domain: "worker/vision"."""
        return self.issue(path.replace("/", "-"), f"URI:{DOMAIN}/{path}", valid_s)
