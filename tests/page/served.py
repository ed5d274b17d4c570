# SPDX-License-Identifier: Apache-2.0
#
# usage: served.py look|folder|follow|both ADDRESS
#
# Opens a page of heaptap serve in chromium, and prints one JSON object: what was on the console, and the totals
# that the page computes; of several traces, what it shows when they are chosen and compared; of a capture, how they grow, and what marks, pauses and a stop from the page do.
import json
import sys

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import Select, WebDriverWait

LIMIT_S = 60


def start():
    options = Options()
    for argument in ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,1000"]:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)


def wait(driver, script):
    return WebDriverWait(driver, LIMIT_S, poll_frequency=0.1).until(
        lambda driver: driver.execute_script("return " + script))


def open_page(driver, address):
    driver.get(address)
    wait(driver, "document.querySelectorAll('#figures dd').length > 0")


def look(driver, address):
    open_page(driver, address)
    return {"totals": driver.execute_script(
        "return heaptap.sums(heaptap.state().from, heaptap.state().to)")}


SUMS = "heaptap.sums(0, heaptap.buckets)"


def wait_path(driver, number):
    """Until the trace of this number is shown."""
    wait(driver, "document.getElementById('folder-trace').value === '%d' && "
                 "document.getElementById('folder-state').textContent === ''" % number)
    return driver.execute_script("return " + SUMS)


def choose(driver, name, number):
    Select(driver.find_element("id", name)).select_by_value(str(number))


def folder(driver, address):
    open_page(driver, address)
    seen = {"first": wait_path(driver, 0)}
    choose(driver, "folder-trace", 1)
    seen["second"] = wait_path(driver, 1)
    choose(driver, "folder-base", 0)
    wait(driver, "document.getElementById('diff-traces')")
    seen["diff"] = driver.execute_script(
        "const {diff} = heaptap.model().facts;"
        "return {sites: document.querySelectorAll('#diff tbody tr').length,"
        "total: diff.metrics.outstanding.total}")
    choose(driver, "folder-base", -1)
    wait(driver, "!document.getElementById('tab-diff')")
    driver.find_element("id", "tab-trend").click()
    wait(driver, "document.querySelectorAll('#trend tbody tr').length")
    seen["trend"] = driver.execute_script(
        "return {sites: document.querySelectorAll('#trend tbody tr').length,"
        "first: document.querySelector('#trend tbody td span').textContent,"
        "traces: document.querySelectorAll('#trend-traces tbody tr').length}")
    driver.find_element("id", "folder-next").click()
    seen["third"] = wait_path(driver, 2)
    driver.back()
    seen["back"] = wait_path(driver, 1)
    seen["view"] = driver.execute_script("return heaptap.state().view")
    return seen


def wait_text(driver, text):
    WebDriverWait(driver, LIMIT_S, poll_frequency=0.1).until(
        lambda driver: text in driver.find_element("id", "live-state").text)


def grown(driver, calls):
    return wait(driver, "(heaptap.sums(0, heaptap.buckets).allocations > %d) &&"
                        " heaptap.sums(0, heaptap.buckets).allocations" % calls)


def check_follow_button(driver):
    """Off, the page stays as it is, though the capture goes on."""
    driver.find_element("id", "live-follow").click()
    still = driver.execute_script("return " + SUMS)
    for _ in range(3):
        figures = driver.find_element("id", "live-figures").text
        WebDriverWait(driver, LIMIT_S, poll_frequency=0.1).until(
            lambda driver: driver.find_element("id", "live-figures").text != figures)
    assert driver.execute_script("return " + SUMS) == still, "the page went on"
    driver.find_element("id", "live-follow").click()
    notices = [each.get_attribute("textContent") for each in driver.find_elements("css selector", "#notices .notice")]
    assert not any("capture still runs" in text for text in notices), "the bar says it"


def follow(driver, address):
    open_page(driver, address)
    wait_text(driver, "Recording")
    seen = [grown(driver, 0)]
    for _ in range(3):
        seen.append(grown(driver, seen[-1]))
    check_follow_button(driver)
    driver.find_element("id", "live-text").send_keys("from the page")
    driver.find_element("id", "live-mark").click()
    driver.find_element("id", "live-pause").click()
    wait_text(driver, "Paused")
    driver.find_element("id", "live-pause").click()
    wait_text(driver, "Recording")
    seen.append(grown(driver, seen[-1]))
    driver.find_element("id", "live-stop").click()
    wait_text(driver, "ended")
    wait(driver, "heaptap.model().facts.capture.ended === 'stop' || "
                 "heaptap.model().facts.capture.file === 'complete'")
    return {"seen": seen, "totals": driver.execute_script(
        "return heaptap.sums(0, heaptap.buckets)")}


def both(driver, address):
    other = start()
    try:
        grows = []
        for page in [driver, other]:
            open_page(page, address)
            wait_text(page, "Recording")
        for page in [driver, other]:
            grows.append(grown(page, grown(page, 0)))
        driver.find_element("id", "live-pause").click()
        wait_text(other, "Paused")
        other.find_element("id", "live-pause").click()
        wait_text(driver, "Recording")
        other.find_element("id", "live-stop").click()
        for page in [driver, other]:
            wait_text(page, "ended")
        return {"grown": grows}
    finally:
        other.quit()


def main():
    driver = start()
    try:
        found = {"look": look, "folder": folder, "follow": follow, "both": both}[sys.argv[1]](driver, *sys.argv[2:])
        found["console"] = [entry["message"] for entry in driver.get_log("browser")]
        print(json.dumps(found))
    finally:
        driver.quit()


main()
