# overlaykey for Yocto, under sysvinit (with busybox's or dpkg's start-stop-daemon) or systemd.
#
# Tried: do_install, with the folders that BitBake would name (tests/init/run packages), and oelint-adv.
# Not tried: BitBake itself. OpenEmbedded-Core must have Rust 1.95.
#
# The source is an archive beside this file, and the list of crates is made by BitBake:
#   git archive --prefix=overlaykey-0.1.0/ -o cross/packages/yocto/files/overlaykey-0.1.0.tar.gz HEAD
#   bitbake -c update_crates overlaykey
SUMMARY = "Keeps a device registered on its Tailscale or Headscale overlay"
LICENSE = "MIT"
LIC_FILES_CHKSUM = "file://LICENSE;md5=12e8a778b419e43e0c7a6b7aa2f3d9ce"

SRC_URI = "file://${BP}.tar.gz"
# Not there before update_crates has been run.
include ${BPN}-crates.inc

inherit cargo cargo-update-recipe-crates update-rc.d systemd

INITSCRIPT_NAME = "overlaykey"
INITSCRIPT_PARAMS = "defaults 95 5"
SYSTEMD_SERVICE:${PN} = "overlaykey.service"

# cargo's own has /usr/bin only.
do_install() {
    install -D -m 0755 ${B}/target/${CARGO_TARGET_SUBDIR}/overlaykey ${D}${sbindir}/overlaykey
    install -D -m 0644 ${S}/cross/overlaykey.conf ${D}${sysconfdir}/overlaykey/overlaykey.conf
    install -D -m 0755 ${S}/cross/init/buildroot/etc/init.d/S95overlaykey ${D}${sysconfdir}/init.d/overlaykey
    install -D -m 0644 ${S}/cross/init/systemd/usr/lib/systemd/system/overlaykey.service \
        ${D}${systemd_system_unitdir}/overlaykey.service
}

CONFFILES:${PN} = "${sysconfdir}/overlaykey/overlaykey.conf"
