# SPDX-License-Identifier: Apache-2.0
#
# usage: served.py look|follow ADDRESS
#
# Opens a page of heaptap serve in chromium, and prints one JSON object: what was on the console, and the totals
# that the page computes; of a capture, how they grow, and what marks, pauses and a stop from the page do.
import json
import sys

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

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


def wait_text(driver, text):
    WebDriverWait(driver, LIMIT_S, poll_frequency=0.1).until(
        lambda driver: text in driver.find_element("id", "live-state").text)


def grown(driver, calls):
    return wait(driver, "(heaptap.sums(0, heaptap.buckets).allocations > %d) &&"
                        " heaptap.sums(0, heaptap.buckets).allocations" % calls)


def follow(driver, address):
    open_page(driver, address)
    wait_text(driver, "Recording")
    seen = [grown(driver, 0)]
    for _ in range(3):
        seen.append(grown(driver, seen[-1]))
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


def main():
    driver = start()
    try:
        found = {"look": look, "follow": follow}[sys.argv[1]](driver, *sys.argv[2:])
        found["console"] = [entry["message"] for entry in driver.get_log("browser")]
        print(json.dumps(found))
    finally:
        driver.quit()


main()
